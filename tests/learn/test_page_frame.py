"""What the browser is told before it needs it."""

import json
import re

import pytest

from tests.learn.learn_user import state_of, visited
from tests.learn.test_learn_page import SLUG, eventually, run


@pytest.mark.parametrize(
    "language, told",
    [("en", "run <code>make learn</code> and open the new address"), ("zh", "请运行 <code>make learn</code>，并打开它打印的新地址")],
)  # fmt: skip
def test_a_tab_of_a_server_that_ended_sends_to_the_new_address(tmp_path, language, told):
    said = []

    async def scenario():
        async with visited(state_of(tmp_path, language)) as user:
            user.javascript_rules = {
                re.compile(r"learn\.say\(\.\.\.(.*)\)"): lambda m: said.append(m[1])
            }
            await user.open(f"/learn/{SLUG}")
            await eventually(lambda: said)

    run(scenario())
    assert told in json.loads(said[0])[0]
