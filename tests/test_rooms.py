"""The rooms of the house: a module imports only from rooms that its own may use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# room -> rooms it may import besides itself (the table of CONTRIBUTING.md, written out)
BASE = {"soc", "isa"}
ENGINE = BASE | {"engine"}
ALLOWED = {
    "soc": set(),
    "isa": {"soc"},
    "engine": BASE,
    "asc": BASE | {"engine"},
    "ops": ENGINE,
    "kernels": ENGINE | {"asc", "ops"},
    "runtime": ENGINE | {"asc", "ops"},
    "profiling": ENGINE | {"asc", "ops", "runtime"},
    "graph": ENGINE | {"asc", "ops", "runtime"},
    "dvpp": ENGINE | {"ops", "runtime"},
    "acl": ENGINE | {"asc", "ops", "runtime", "graph", "dvpp", "profiling"},
    "api": ENGINE | {"ops", "runtime", "graph", "profiling"},
    "torch_npu": {"acl"},
    "cli": ENGINE | {"api", "asc", "ops", "runtime", "graph", "dvpp", "profiling", "acl", "kernels"},
}
# single doors that are left open on purpose
DOORS = {
    ("ops", "kernels"): "ops/__init__.py loads the kernel package by entry point",
}
FILES = {"soc_files": "soc", "configs": "soc", "__init__": ""}


def room_of(parts: tuple[str, ...]) -> str:
    """Room of a dotted module name; "" for the package itself."""
    if parts[0] in ("acl", "kernels", "configs", "torch_npu"):
        return {"configs": "soc"}.get(parts[0], parts[0])
    if parts[0] != "ascend_sim" or len(parts) < 2:
        return ""
    name = parts[1]
    return FILES.get(name, name)


def imports(path: Path) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            base = tuple(node.module.split("."))
            found |= {(*base, alias.name) for alias in node.names} if base == ("ascend_sim",) else {base}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):  # an import too
            found |= {tuple(a.value.split(".")) for a in node.args if isinstance(a, ast.Constant) and a.value}
    return {name for name in found if name[0] in ("ascend_sim", "acl", "torch_npu")}


MODULES = sorted(p for top in ("ascend_sim", "acl", "kernels", "torch_npu") for p in (ROOT / top).rglob("*.py"))


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_arrows_go_down(room: str) -> None:
    wrong = []
    for path in MODULES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if room_of(parts) != room:
            continue
        for name in imports(path):
            other = room_of(name)
            known = other in ALLOWED and other != room
            if known and other not in ALLOWED[room] and (room, other) not in DOORS:
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(name)}")
    assert not wrong, "\n".join(wrong)


def test_a_checkout_works_without_an_installation(tmp_path):
    """A program that starts in a checkout gets the packages of the checkout, kernels and chips with them."""
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'ascend' not in getattr(f, '__module__', '')]\n"
        "import ascend_sim\n"
        "print(ascend_sim.simulate_op('Add', ['1024:float16'] * 2, soc='Ascend910B2').estimated)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
