"""Describes a CUDA device and its state, for the report beside the times."""

import subprocess

_NVIDIA_SMI_FIELDS = ("clocks.sm", "clocks.max.sm", "temperature.gpu", "power.draw")


def read_timing_device_state(device: str) -> dict[str, str | float]:
    """Return the name of a CUDA device, with the clock and state that nvidia-smi reports."""
    if not device.startswith("cuda"):
        return {}
    import torch

    found: dict[str, str | float] = {"device": torch.cuda.get_device_name(device)}
    query = ["nvidia-smi", f"--query-gpu={','.join(_NVIDIA_SMI_FIELDS)}", "--format=csv,noheader"]
    index = torch.device(device).index or 0
    try:
        done = subprocess.run(
            [*query, f"--id={index}"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return found | {"clock": "not known: nvidia-smi does not answer"}
    clock, most, degrees, power = (x.strip() for x in done.stdout.strip().split(","))
    return found | {"clock": f"{clock} of {most}", "state": f"{degrees} degrees, {power}"}
