"""A file of known size that Arrow reads where it likes. What reads it says where the bytes come from."""

import io


class SizedFile(io.RawIOBase):
    """Subclasses write `read`, which begins at `_at`."""

    def __init__(self, size: int) -> None:
        # In bytes.
        self.size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence] + offset
        return self._at
