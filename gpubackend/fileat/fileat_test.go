// SPDX-License-Identifier: Apache-2.0

package fileat

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFile: what was written at a place is read there, and nowhere else; the position stays.
func TestFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if n, err := Write(fd, []byte("words"), 3); n != 5 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	b := make([]byte, 8)
	if err := Read(fd, b, 0); err != nil || string(b) != "\x00\x00\x00words" {
		t.Errorf("%q, %v", b, err)
	}
	if err := Read(fd, b, 1); !errors.Is(err, unix.ENODATA) {
		t.Errorf("behind the end: %v", err)
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("the file's position is %d, %v", at, err)
	}
	if n, err := Write(-1, b, 0); n != 0 || !errors.Is(err, unix.EBADF) {
		t.Errorf("no file: %d bytes, %v", n, err)
	}
}

// TestReadsAsFilesDo: a file is read as by its own ReadAt, and what is none stays what it is.
func TestReadsAsFilesDo(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("words"); err != nil {
		t.Fatal(err)
	}
	r := ReaderAt(f)
	if _, is := r.(File); !is {
		t.Fatalf("a file is read by %T", r)
	}
	for _, x := range []struct{ bytes, at int }{{5, 0}, {2, 3}, {3, 3}, {1, 5}, {0, 9}} {
		want, got := make([]byte, x.bytes), make([]byte, x.bytes)
		n, e := f.ReadAt(want, int64(x.at))
		if m, err := r.ReadAt(got, int64(x.at)); m != n || err != e || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes %q, %v; want %d bytes %q, %v", x, m, got, err, n, want, e)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("before the beginning: %v", err)
	}
	f.Close()
	if _, err := r.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a file that is closed is read")
	}
	if b := bytes.NewReader(nil); ReaderAt(b) != b {
		t.Error("what is in memory is read as a file")
	}
}

// TestAll: a call that does less than asked for is repeated, and one that is interrupted.
func TestAll(t *testing.T) {
	none := errors.New("none")
	for name, c := range map[string]struct {
		does []int // bytes of each call; -1: it is interrupted
		want int
		err  error
	}{
		"at once":     {[]int{4}, 4, nil},
		"in parts":    {[]int{1, 2, 1}, 4, nil},
		"interrupted": {[]int{1, -1, 3}, 4, nil},
		"no progress": {[]int{3, 0}, 3, none},
	} {
		t.Run(name, func(t *testing.T) {
			places := int64(7)
			done, err := all(make([]byte, 4), places, none, func(b []byte, at int64) (int, error) {
				if at != places || len(b) != 4-int(at-7) {
					t.Errorf("%d bytes at %d, want the place %d", len(b), at, places)
				}
				n := c.does[0]
				if c.does = c.does[1:]; n < 0 {
					return n, unix.EINTR
				}
				places += int64(n)
				return n, nil
			})
			if done != c.want || !errors.Is(err, c.err) || len(c.does) != 0 {
				t.Errorf("%d, %v, %d calls are left", done, err, len(c.does))
			}
		})
	}
}
