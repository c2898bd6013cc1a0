"""Random shapes in buffers of exactly the promised size, under the sanitizers of the compiler."""

import subprocess
from pathlib import Path

import pytest
from benchmarks._kernels import SOURCES, compiler

CHECK = Path(__file__).with_name("kernels_check.c")


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_random_shapes_stay_inside_their_memory(tmp_path: Path) -> None:
    program = tmp_path / "check"
    flags = ["-O1", "-g", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    sources = [CHECK, *sorted(SOURCES.glob("kernels*.c"))]
    done = subprocess.run([str(compiler()), *flags, *sources, "-lm", "-o", program], capture_output=True, text=True)
    if done.returncode and "sanitize" in done.stderr + done.stdout:
        pytest.skip("the compiler brings no sanitizers")
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program, "1000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
