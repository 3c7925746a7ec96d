"""What an installation brings: extras, files, and the targets that the documents name."""

from __future__ import annotations

import ast
import re
import sys
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path

import pyarrow
import pytest

import mainstay
from tests.package import WHEN_IMPORTED, build, new_environment, said, try_it
from tests.pages import ROOT

FOR_DEVELOPERS = {"dev", "bench", "all", "docs"}


def extras() -> dict[str, str]:
    project = (ROOT / "pyproject.toml").read_text()
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return dict(re.findall(r"^(\w+) = (\[.*?\]$)", section, re.MULTILINE | re.DOTALL))


def test_all_is_every_extra_that_a_job_can_use() -> None:
    found = extras()
    (listed,) = re.findall(r"mainstay\[([\w,]+)\]", found["all"])
    assert set(listed.split(",")) == set(found) - FOR_DEVELOPERS
    assert "mainstay[all,docs]" in found["dev"]


def test_the_readme_installs_what_it_uses() -> None:
    assert "pip install -e '.[all]'" in (ROOT / "README.md").read_text()


def test_every_target_of_the_guide_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE):
        assert f"\n{target}:" in makefile, target


# ---------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    found = (file for file in (source / "mainstay").rglob("*") if file.is_file())
    files = {file.relative_to(source).as_posix() for file in found}
    assert packed == {file for file in files if "__pycache__" not in file}
    assert {"mainstay/py.typed", "mainstay/serve/page/index.html"} <= packed


def test_the_version_is_written_in_one_place(built: tuple[Path, Path]) -> None:
    wheel, archive = built
    assert wheel.name.startswith(f"mainstay-{mainstay.__version__}-py3-")
    assert archive.name == f"mainstay-{mainstay.__version__}.tar.gz"
    assert mainstay.__version__ not in (ROOT / "pyproject.toml").read_text()


def test_the_source_archive_can_be_built_tested_and_read(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "LICENSE", "README.md", "Makefile", "docs/writing.md"}
    assert needed <= packed
    assert any(name.startswith("tests/golden/") for name in packed)
    assert not any("__pycache__" in name for name in packed)


def test_the_wheel_runs_the_first_job_in_an_environment_of_its_own(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """Dependencies are those that are installed here: a test asks no index."""
    python = new_environment(tmp_path / "environment")
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    said([*command, str(built[0])], tmp_path)
    (packages,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(f"{Path(pyarrow.__file__).parents[1]}\n")
    where = said([str(python), "-c", "import mainstay; print(mainstay.__file__)"], tmp_path)
    assert where.startswith(str(packages))
    assert "finished [('alice', 5), ('alice', 7), ('bob', 3)]" in try_it(python, tmp_path)


def test_an_import_loads_nothing_that_is_large() -> None:
    assert said([sys.executable, "-c", WHEN_IMPORTED], ROOT / "src").strip() == "[]"


def test_a_job_without_expressions_does_not_load_pandas() -> None:
    program = "import sys, mainstay as ms; ms.Environment(spark='embedded'); print(*sys.modules)"
    loaded = said([sys.executable, "-c", program], ROOT / "src").split()
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


def test_every_public_name_is_loaded_when_it_is_asked_for() -> None:
    for name in mainstay.__all__:
        assert getattr(mainstay, name) is not None
    assert dir(mainstay) == mainstay.__all__
    program = "import mainstay as ms; print(ms.connectors.kafka.__name__, ms.errors.__name__)"
    said_so = said([sys.executable, "-c", program], ROOT / "src")
    assert said_so == "mainstay.connectors.kafka mainstay.errors\n"
    with pytest.raises(AttributeError, match=r"module 'mainstay' has no attribute 'Enviroment'"):
        mainstay.Enviroment  # noqa: B018


@pytest.mark.parametrize("package", ["mainstay", "mainstay/connectors"])
def test_a_type_checker_sees_imports_and_nothing_that_takes_any_name(package: str) -> None:
    tree = ast.parse((ROOT / "src" / package / "__init__.py").read_text())
    guards = {ast.unparse(node.test): node for node in tree.body if isinstance(node, ast.If)}
    assert set(guards) == {"TYPE_CHECKING", "not TYPE_CHECKING"}
    assert "__getattr__" in ast.unparse(guards["not TYPE_CHECKING"])
    at_top = [node for node in tree.body if not isinstance(node, ast.If)]
    assert not any("__getattr__" in ast.unparse(node) for node in at_top)
    imports = [node for node in guards["TYPE_CHECKING"].body if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, name.name) for node in imports for name in node.names}
    loaded = vars(import_module(package.replace("/", ".")))["_HOMES"]
    assert {(home, name) for name, home in loaded.items()} == {
        (module, name) for module, name in seen if module != "mainstay"
    }


def test_the_least_python_is_the_first_that_is_named() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", text)
    assert f'requires-python = ">={named[0]}"' in text
