"""save, load, copying and pickling: both ways with PyTorch, and files that are damaged or hostile."""

import copy
import io
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from _both import describe, error, same
from _checkpoints import renamed, saved, zoo

import tensotron
from tensotron.serialization import _archive

LIBS = (tensotron, torch)
Pair = namedtuple("Pair", "x y")


def passed_on(obj, writer, reader, **kwargs):
    """What `reader` loads of what `writer` saves."""
    buffer = io.BytesIO()
    writer.save(obj, buffer)
    buffer.seek(0)
    return reader.load(buffer, **kwargs)


def plain(obj):
    if isinstance(obj, dict):
        return [(plain(k), plain(v)) for k, v in obj.items()]
    if isinstance(obj, (list, tuple)) and not isinstance(obj, (tensotron.Size, torch.Size)):
        return [plain(v) for v in obj]
    strides = obj.stride() if isinstance(obj, (tensotron.Tensor, torch.Tensor)) else None
    return strides, describe(obj)


@pytest.mark.parametrize("writer", LIBS)
@pytest.mark.parametrize("reader", LIBS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_zoo(writer, reader, weights_only):
    got = passed_on(zoo(writer), writer, reader, weights_only=weights_only)
    assert plain(got) == plain(zoo(reader))
    got["base"][1, 0] = 99
    assert got["row"][0, 0] == 99 and got["transposed"][0, 1] == 99 and got["strided"].untyped_storage().nbytes() == 48


@pytest.mark.parametrize("writer", LIBS)
def test_small_values(writer):
    """dtypes, devices, layouts, bytes, sets: as values of their own."""
    obj = [writer.float32, writer.bool, writer.device("cpu"), writer.strided, b"\xff\x00", bytearray(b"ab"), {1, "a"}, 1 + 2j]
    obj += [OrderedDict(a=1), Counter("aab")]
    for reader in LIBS:
        want = [reader.float32, reader.bool, reader.device("cpu"), reader.strided, *obj[4:]]
        assert passed_on(obj, writer, reader) == want
        assert passed_on(obj, writer, reader, weights_only=False) == want


def test_generators_and_named_results():
    g = tensotron.Generator().manual_seed(5)
    got = passed_on({"g": g, "m": tensotron.ones(2, 2).max(0)}, tensotron, torch, weights_only=False)
    assert torch.rand(3, generator=got["g"]).tolist() == tensotron.rand(3, generator=g).tolist()
    assert isinstance(got["m"], torch.return_types.max)
    assert pickle.loads(pickle.dumps(tensotron.ones(2, 2).max(0))).indices.tolist() == [0, 0]
    got = passed_on(torch.Generator().manual_seed(6), torch, tensotron, weights_only=False)
    assert tensotron.rand(3, generator=got).tolist() == torch.rand(3, generator=torch.Generator().manual_seed(6)).tolist()


def test_state_dict_keeps_its_metadata():
    state = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()
    ours = passed_on(state, torch, tensotron)
    assert type(ours) is OrderedDict and ours._metadata == state._metadata
    back = passed_on(ours, tensotron, torch)
    assert back._metadata == state._metadata and plain(back) == plain(state)


@pytest.mark.parametrize("writer", LIBS)
@pytest.mark.parametrize("reader", LIBS)
def test_parameters(writer, reader):
    data = writer.arange(6.0)
    p = writer.nn.Parameter(data[2:])
    frozen = writer.nn.Parameter(data, requires_grad=False)
    got, still, shared = passed_on([p, frozen, data], writer, reader)
    assert type(got) is reader.nn.Parameter and got.requires_grad and not still.requires_grad
    shared[2] = 50
    assert got.tolist() == [50, 3, 4, 5]
    twice = passed_on([p, p], writer, reader)
    assert twice[0] is twice[1]


@pytest.mark.parametrize("writer", LIBS)
@pytest.mark.parametrize("reader", LIBS)
def test_whole_modules(writer, reader):
    def make(L):
        return L.nn.Sequential(L.nn.Linear(3, 4), L.nn.ReLU(), L.nn.BatchNorm1d(4), L.nn.Linear(4, 2)).eval()

    module = make(writer)
    got = passed_on(module, writer, reader, weights_only=False)
    np.testing.assert_allclose(got(reader.ones(2, 3)).tolist(), module(writer.ones(2, 3)).tolist(), rtol=1e-6)
    other = make(reader)
    other.load_state_dict(passed_on(module.state_dict(), writer, reader))
    assert plain(dict(other.state_dict())) == plain(dict(got.state_dict()))


@pytest.mark.parametrize("writer", LIBS)
@pytest.mark.parametrize("reader", LIBS)
def test_trusted_modules(writer, reader):
    module = writer.nn.Sequential(writer.nn.Linear(3, 2), writer.nn.ReLU())
    with pytest.raises(pickle.UnpicklingError, match="Linear|Sequential"):
        passed_on(module, writer, reader)
    nn = reader.nn.modules
    with reader.serialization.safe_globals([nn.container.Sequential, nn.linear.Linear, nn.activation.ReLU]):
        got = passed_on(module, writer, reader)
    assert got(reader.ones(1, 3)).shape == (1, 2)


@pytest.mark.parametrize("writer", LIBS)
@pytest.mark.parametrize("reader", LIBS)
def test_training_goes_on(writer, reader):
    """A checkpoint of module, optimiser, schedule and generator, continued in the other library."""

    def make(L):
        L.manual_seed(0)
        module = L.nn.Linear(3, 2)
        optimizer = L.optim.Adam(module.parameters(), 1e-2)
        return module, optimizer, L.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(L, module, optimizer, schedule):
        optimizer.zero_grad()
        module(L.rand(4, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()

    first = make(writer)
    for _ in range(3):
        step(writer, *first)
    saved_state = {"parts": [x.state_dict() for x in first], "rng": writer.get_rng_state()}
    got = passed_on(saved_state, writer, reader)
    step(writer, *first)
    second = make(reader)
    for x, state in zip(second, got["parts"]):
        x.load_state_dict(state)
    reader.set_rng_state(got["rng"])
    step(reader, *second)
    np.testing.assert_allclose(second[0].weight.tolist(), first[0].weight.tolist(), rtol=1e-6)


@pytest.mark.parametrize("lib", LIBS)
def test_names_inside_of_strings(lib):
    """Bytes of a checkpoint inside of a checkpoint, and texts that look like instructions of a pickle."""
    inner = io.BytesIO()
    lib.save(lib.ones(2), inner)
    texts = ["ctensotron._utils\n_rebuild_tensor_v2\n", "ctorch._utils\n_rebuild_tensor_v2\n", "ctensotron\nfloat32\n"]
    for text in texts:
        obj = {"inner": inner.getvalue(), "raw": pickle.dumps(lib.ones(2), 2), "text": text, "dtype": lib.float32}
        for more in ({}, {"t": lib.arange(2), "u": [lib.ones(1)]}):
            for reader in LIBS:
                got = passed_on({**obj, **more}, lib, reader)
                assert all(got[k] == obj[k] for k in ("inner", "raw", "text")) and got["dtype"] is reader.float32
                assert not more or got["t"].tolist() == [0, 1]


@pytest.mark.parametrize("lib", LIBS)
def test_one_tensor_twice_is_one_tensor(lib):
    t = lib.ones(2)
    a, b = passed_on([t, t], lib, lib)
    assert a is b


def test_protocols():
    obj = zoo(tensotron)
    for protocol in (2, 3, 4, 5):
        buffer = io.BytesIO()
        tensotron.save(obj, buffer, pickle_protocol=protocol)
        for reader in LIBS:
            buffer.seek(0)
            assert plain(reader.load(buffer, weights_only=False)) == plain(zoo(reader))


def test_old_format():
    buffer = io.BytesIO()
    torch.save(zoo(torch), buffer, _use_new_zipfile_serialization=False)
    for weights_only in (True, False):
        buffer.seek(0)
        assert plain(tensotron.load(buffer, weights_only=weights_only)) == plain(zoo(tensotron))
    data = buffer.getvalue()
    for n in (0, 5, 100, len(data) // 2, len(data) - 1):
        with pytest.raises((EOFError, RuntimeError, pickle.UnpicklingError)):
            tensotron.load(io.BytesIO(data[:n]))
    with pytest.raises(NotImplementedError):
        tensotron.save({}, io.BytesIO(), _use_new_zipfile_serialization=False)


def test_other_byte_order(tmp_path):
    """A file of a big-endian machine: the same bytes, turned."""
    buffer = io.BytesIO()
    tensotron.save(zoo(tensotron), buffer)
    turned = io.BytesIO()
    reader = _archive.Reader(buffer)
    writer = _archive.Writer(turned, "archive")
    for name in reader._records:
        data = reader.read(name)
        if name == "byteorder":
            data = b"big"
        elif name.startswith("data/"):
            width = [4, 8, 8, 4, 1, 1, 4, 4, 4, 4][int(name[5:])]
            data = np.frombuffer(data, f"u{width}").byteswap().tobytes()
        writer.write(name, data)
    writer.close()
    turned.seek(0)
    want = torch.load(turned)
    turned.seek(0)
    assert plain(tensotron.load(turned)) == plain(zoo(tensotron))
    assert plain(want) == plain(zoo(torch))


# ==== where ============================================================================================
def test_paths(tmp_path):
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt"), str(tmp_path / "\u00fc"), pathlib.Path(tmp_path) / "noext"):
        tensotron.save(tensotron.arange(3), path)
        assert tensotron.load(path).tolist() == torch.load(path).tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 4  # nothing temporary is left
    assert zipfile.ZipFile(tmp_path / "a.pt").namelist()[0] == "a/data.pkl"


def test_alignment_and_equal_files():
    buffers = [io.BytesIO(), io.BytesIO()]
    for buffer in buffers:
        tensotron.save({"a": tensotron.ones(3), "b": tensotron.zeros(50)}, buffer)
    data = buffers[0].getvalue()
    assert data == buffers[1].getvalue()
    assert data.index(np.ones(3, np.float32).tobytes()) % 64 == 0


def test_files_that_cannot_seek(tmp_path):
    """A member of another zip file, as Stable-Baselines3 saves; a pipe."""
    path = tmp_path / "outer.zip"
    with zipfile.ZipFile(path, "w") as outer, outer.open("policy.pth", "w") as member:
        tensotron.save(zoo(tensotron), member)
    with zipfile.ZipFile(path) as outer:
        data = outer.read("policy.pth")
    for reader in LIBS:
        assert plain(reader.load(io.BytesIO(data))) == plain(zoo(reader))

    class OnlyWrite:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)
            return len(data)

        def flush(self):
            pass

    sink = OnlyWrite()
    tensotron.save(tensotron.ones(3), sink)
    assert torch.load(io.BytesIO(sink.data)).tolist() == [1, 1, 1]

    class OnlyRead:
        def read(self, n=-1):
            return data

    with pytest.raises(AttributeError, match="seekable"):
        tensotron.load(OnlyRead())


def test_refusals_as_pytorch(tmp_path):
    x = {lib: lib.ones(2) for lib in LIBS}
    same(lambda L: L.save(x[L], 3))
    same(lambda L: L.save(x[L], None))
    same(lambda L: L.save(x[L], str(tmp_path / "no" / "a.pt")))
    same(lambda L: L.load(3))
    same(lambda L: L.load(str(tmp_path / "none.pt")))
    same(lambda L: L.load(str(tmp_path)))
    with pytest.raises(EOFError):
        tensotron.load(io.BytesIO(b""))
    same(lambda L: L.load(io.BytesIO(), weights_only=True, pickle_module=pickle))
    same(lambda L: L.save([L.ones(2), L.ones(2).untyped_storage(), x[L], x[L].view(L.int32)], io.BytesIO()))
    for lib in LIBS:
        with pytest.raises(RuntimeError):
            lib.save(x[lib], tmp_path)


def test_permissions_links_and_devices(tmp_path):
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    tensotron.save(1, path)
    path.chmod(0o640)
    link.symlink_to(path)
    tensotron.save(2, link)
    assert link.is_symlink() and tensotron.load(path) == 2 and path.stat().st_mode & 0o777 == 0o640
    tensotron.save(tensotron.ones(1000), os.devnull)
    assert not os.path.isfile(os.devnull)


class Bomb:
    def __reduce__(self):
        raise ValueError("no pickle of this")


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    tensotron.save({"v": 1}, path)
    with pytest.raises(ValueError, match="no pickle"):
        tensotron.save({"v": Bomb()}, path)
    assert tensotron.load(path) == {"v": 1} and os.listdir(tmp_path) == ["a.pt"]


def test_killed_save_leaves_a_whole_file(tmp_path):
    """Whenever SIGKILL comes, the path holds one of the versions."""
    path = tmp_path / "a.pt"
    program = (
        "import sys, tensotron as t\n"
        "for i in range(10**6):\n"
        "    t.save({'i': i, 'a': t.full((20000,), float(i))}, sys.argv[1])\n"
        "    if i == 0: print('ready', flush=True)\n"
    )
    for delay in (0.002, 0.011, 0.03):
        child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(delay)
        except subprocess.TimeoutExpired:
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        got = tensotron.load(path)
        assert (got["a"] == got["i"]).all()


# ==== map_location =====================================================================================
def test_map_location():
    buffers = {}
    for lib in LIBS:
        buffers[lib] = io.BytesIO()
        lib.save({"a": lib.ones(2), "b": lib.zeros(3)}, buffers[lib])

    def load(make):
        def fn(L):
            buffers[L].seek(0)
            return [v.tolist() for v in L.load(buffers[L], map_location=make(L)).values()]

        same(fn)

    load(lambda L: "cpu")
    load(lambda L: L.device("cpu"))
    load(lambda L: {"cuda:0": "cpu"})
    load(lambda L: lambda storage, location: storage)
    load(lambda L: lambda storage, location: None)
    load(lambda L: "cuda")
    load(lambda L: "cuda:3")
    load(lambda L: {"cpu": "cuda:0"})
    load(lambda L: L.device("cuda"))
    load(lambda L: "nowhere")
    seen = []
    buffers[tensotron].seek(0)
    tensotron.load(buffers[tensotron], map_location=lambda s, where: seen.append((s.nbytes(), where)))
    assert seen == [(8, "cpu"), (12, "cpu")]


def test_file_of_a_gpu():
    data = saved(tensotron.arange(3))
    old, new = b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"
    for lib in LIBS:
        with pytest.raises(RuntimeError, match=r"torch.load with map_location=torch.device\('cpu'\)"):
            lib.load(renamed(data, old, new))
        assert lib.load(renamed(data, old, new), map_location="cpu").tolist() == [0, 1, 2]
        assert lib.load(renamed(data, old, new), map_location={"cuda:0": "cpu"}).tolist() == [0, 1, 2]


def test_dtypes_that_pytorch_has_alone():
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.complex64):
        with pytest.raises(NotImplementedError, match="Storage"):
            passed_on(torch.ones(2, dtype=dtype), torch, tensotron)
    with pytest.raises(NotImplementedError, match="uint16"):
        passed_on(torch.ones(2, dtype=torch.uint16), torch, tensotron)
    with pytest.raises(NotImplementedError, match="sparse"):
        passed_on(torch.ones(2, 2).to_sparse(), torch, tensotron)


# ==== weights_only =====================================================================================
class Marked:
    ran = []

    def __init__(self, v=0):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v


class Evil:
    def __reduce__(self):
        return Marked.ran.append, (1,)


class Shell:
    def __reduce__(self):
        return os.system, ("touch /nowhere/tensotron",)


class Evaluated:
    def __reduce__(self):
        return eval, ("Marked.ran.append(1)",)


HARMFUL = [Evil(), Shell(), Evaluated(), Marked(), Marked, np.arange(3), print, os.system, io.BytesIO, zipfile.ZipFile]


@pytest.mark.parametrize("obj", HARMFUL)
@pytest.mark.parametrize("writer", LIBS)
def test_nothing_of_the_file_is_run(writer, obj):
    Marked.ran.clear()
    for reader in LIBS:
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            passed_on({"w": writer.ones(2), "x": obj}, writer, reader)
    assert not Marked.ran


def test_the_message_says_what_to_change():
    with pytest.raises(pickle.UnpicklingError) as info:
        passed_on(Marked(), tensotron, tensotron)
    text = str(info.value)
    name = f"{Marked.__module__}.Marked"
    for part in ("weights_only=False", "trust", f"GLOBAL {name}", f"add_safe_globals([{name}])", f"safe_globals([{name}])"):
        assert part in text


def test_safe_globals():
    for lib in LIBS:
        s = lib.serialization
        before = set(s.get_safe_globals())  # PyTorch's own are among them
        with s.safe_globals([Marked]):
            assert set(s.get_safe_globals()) - before == {Marked}
            assert passed_on([Marked(3)], lib, lib) == [Marked(3)]
        assert set(s.get_safe_globals()) == before
        with pytest.raises(pickle.UnpicklingError):
            passed_on([Marked(3)], lib, lib)
        s.add_safe_globals([(Marked, f"{Marked.__module__}.Marked")])
        assert passed_on(Marked(4), lib, lib) == Marked(4)
        s.clear_safe_globals()
        assert s.get_safe_globals() == []
        if before:
            s.add_safe_globals(list(before))
        buffer = io.BytesIO()
        lib.save([Marked(1), lib.ones(2), print], buffer)
        buffer.seek(0)
        assert sorted(s.get_unsafe_globals_in_checkpoint(buffer)) == sorted([f"{Marked.__module__}.Marked", "builtins.print"])
        with pytest.raises(ValueError, match="checkpoint returned by torch.save"):
            s.get_unsafe_globals_in_checkpoint(io.BytesIO(b"abc"))
        with s.safe_globals([os.system]), pytest.raises(pickle.UnpicklingError, match="blocked"):
            passed_on(Shell(), lib, lib)


def test_arrays_with_safe_globals():
    array = np.arange(6.0).reshape(2, 3)
    reconstruct, args, _ = array.__reduce__()
    trusted = [reconstruct, np.ndarray, np.dtype, type(array.dtype)]
    with tensotron.serialization.safe_globals(trusted):
        assert (passed_on({"a": array}, tensotron, tensotron)["a"] == array).all()
    assert (passed_on(array, torch, tensotron, weights_only=False) == array).all()


def test_environment_decides(monkeypatch):
    for lib in LIBS:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
        with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
            assert passed_on(Marked(2), lib, lib) == Marked(2)
        with pytest.raises(pickle.UnpicklingError):
            passed_on(Marked(2), lib, lib, weights_only=True)
        monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
        with pytest.raises(RuntimeError, match="Only one of"):
            passed_on(1, lib, lib)
        monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
        with pytest.raises(pickle.UnpicklingError):
            passed_on(Marked(2), lib, lib, weights_only=False)
        monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")


def test_what_is_not_there():
    with pytest.raises(NotImplementedError, match="mmap"):
        tensotron.load(io.BytesIO(saved(1)), mmap=True)
    with pytest.raises(NotImplementedError, match="safetensors"):
        tensotron.load("weights.safetensors")
    script = io.BytesIO()
    with zipfile.ZipFile(script, "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02N.")
        z.writestr("archive/constants.pkl", b"\x80\x02N.")
    script.seek(0)
    with pytest.raises(NotImplementedError, match="TorchScript"):
        tensotron.load(script)


# ==== copies and pickles ===============================================================================
def test_copies_as_pytorch():
    def deep(L):
        base = L.arange(6.0)
        a, b = copy.deepcopy([base, base[2:]])
        a[3] = 9
        return b, b.storage_offset(), b.untyped_storage().nbytes(), base

    def shallow(L):
        x = L.arange(3.0)
        y = copy.copy(x)
        y[0] = 5
        return x, y

    def pickled(L):
        x = L.arange(6.0, requires_grad=True)
        with L.no_grad():
            a, b = pickle.loads(pickle.dumps([x, x[2:]]))
            a[3] = 9
        return b, a, b.storage_offset()

    def with_grad(L):
        x = L.arange(3.0, requires_grad=True)
        x.sum().backward()
        y = copy.deepcopy(x)
        y.grad[0] = 7
        return y, y.grad, x.grad, y.is_leaf

    def memo(L):
        x = L.ones(2)
        a, b = copy.deepcopy([x, x])
        return a is b

    for fn in (deep, shallow, pickled, with_grad, memo):
        same(fn)
    same(lambda L: copy.deepcopy(L.ones(2, requires_grad=True) * 2))
    same(lambda L: passed_on(L.ones(2, requires_grad=True) * 2, L, L))
    same(lambda L: pickle.loads(pickle.dumps(L.arange(12.0).reshape(3, 4).t(), protocol=5)).stride())


def test_attributes_and_subclasses():
    for lib in LIBS:
        x = lib.ones(2)
        x.note = "hello"
        for got in (passed_on(x, lib, lib), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
            assert got.note == "hello"


def test_storages():
    for lib in LIBS:
        s = lib.arange(3, dtype=lib.int32).untyped_storage()
        assert s.nbytes() == s.size() == len(s) == 12 and s.device == lib.device("cpu")
        assert passed_on(s, lib, lib).tolist() == s.tolist() == s.clone().tolist()
        if lib is tensotron:  # PyTorch cannot load such a pickle
            assert pickle.loads(pickle.dumps(s)).tolist() == s.tolist()
        t = lib.ones(3)._typed_storage()
        assert t.dtype is lib.float32 and t.nbytes() == 12


def test_pickle_modules():
    class Module:
        Pickler, Unpickler, __name__ = pickle.Pickler, pickle.Unpickler, "other"

    buffer = io.BytesIO()
    tensotron.save(zoo(tensotron), buffer, pickle_module=Module)
    buffer.seek(0)
    assert plain(tensotron.load(buffer, pickle_module=Module)) == plain(zoo(tensotron))


def test_errors_of_user_code_are_handed_on():
    for lib in LIBS:
        with lib.serialization.safe_globals([int, (int, "builtins.int")]):
            class Number:
                def __reduce__(self):
                    return int, ("x",)

            with pytest.raises(ValueError, match="invalid literal") as info:
                passed_on(Number(), lib, lib)
            assert error(info.value, lib)[0] == "ValueError"
