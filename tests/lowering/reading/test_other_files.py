"""Files of other formats, written by their own libraries."""

import bz2
import gzip
import io
import lzma
import pickle
import zipfile

import numpy as np
import pytest
from tables import each_row

import lowering
from lowering import ModuleFileError
from lowering.reading.files import other_kind

TEXT = "func.func @main() { return }\n"


def npz():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("x", TEXT * 9)
    return buffer.getvalue()


def npy():
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    return buffer.getvalue()


OTHERS = {
    "gzip": (gzip.compress(TEXT.encode()), "a gzip file", "unpack it: gunzip"),
    "bz2": (bz2.compress(TEXT.encode()), "a bzip2 file", "unpack it: bunzip2"),
    "xz": (lzma.compress(TEXT.encode()), "an xz file", "unpack it: unxz"),
    "zip": (npz(), "a zip archive", "read arrays with numpy.load; extract a module with unzip"),
    "npy": (npy(), "a NumPy array", None),
    "pickle": (pickle.dumps(TEXT), "a Python pickle", None),
    "utf-16": (TEXT.encode("utf-16"), "text in UTF-16", "save the text in UTF-8"),
    "utf-16-le": (TEXT.encode("utf-16-le"), "text in UTF-16", "save the text in UTF-8"),
    "utf-32": (TEXT.encode("utf-32"), "text in UTF-32", "save the text in UTF-8"),
    "onnx": (b"\x08\x07\x12\x07pytorch\x1a\x031.9:\x99\x01", "a protocol buffer, such as", None),
    "hlo": (b"\n\x04main\x12\x04main\x1a\x02xy", "a protocol buffer", "use lowering.from_hlo"),
    "tflite": (b"\x1c\0\0\0TFL3\x14\0 \0", "a TensorFlow Lite model", None),
}


@each_row("name", OTHERS)
def test_recognized_formats(name):
    data, kind, fix = OTHERS[name]
    with pytest.raises(ModuleFileError) as caught:
        lowering.load_bytes(data)
    message = str(caught.value)
    assert f"; it seems to be {kind}" in message
    assert fix is None or f"\nfix: {fix}" in message
    assert message.count("\n") == 1


def test_unknown_formats():
    assert other_kind(b"") is None
    assert other_kind(TEXT.encode()) is None
    assert other_kind(bytes(20)) is None
    with pytest.raises(ModuleFileError, match=r"byte 0 is zero\nfix: pass a file that Stable"):
        lowering.load_bytes(bytes(20))


def test_utf_8_with_a_byte_order_mark_and_crlf():
    for data in (TEXT.encode("utf-8-sig"), TEXT.replace("\n", "\r\n").encode()):
        assert lowering.load_bytes(data).name == "main"
