"""Do the diagnoses name what is wrong in answers that people write?"""
