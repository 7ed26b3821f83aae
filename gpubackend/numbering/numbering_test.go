// SPDX-License-Identifier: Apache-2.0

package numbering

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	first = 100
	count = 4
)

// files are so many memory files.
func files(t *testing.T, n int) (fds []int) {
	t.Helper()
	for range n {
		fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	return fds
}

// next is the Numbers of the next process.
func next(t *testing.T, s keepertest.Store) (n *Numbers, end func()) {
	t.Helper()
	r, _, err := remains.New(s, s.Given(t))
	if err != nil {
		t.Fatal(err)
	}
	if n, err = New(r, first, count); err != nil {
		r.Close()
		t.Fatal(err)
	}
	return n, func() {
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		n.Close()
		r.Close()
	}
}

// TestOneNumberForOneFile: a file keeps its number while it is there, in the next process, too. No
// other file ever gets it.
func TestOneNumberForOneFile(t *testing.T) {
	s := keepertest.Store{}
	defer s.Close()
	f := files(t, 5)
	copied, err := unix.Dup(f[1])
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	for i, step := range []struct {
		fds  []int
		want []uint32 // of f; 0: none
	}{
		{nil, []uint32{0, 0, 0, 0, 0}},
		{f[:2], []uint32{100, 101, 0, 0, 0}},
		{[]int{f[0], copied, f[1]}, []uint32{100, 101, 0, 0, 0}},
		{[]int{f[2], copied}, []uint32{0, 101, 102, 0, 0}},
		{f[:2], []uint32{103, 101, 0, 0, 0}},
		{f[1:2], []uint32{0, 101, 0, 0, 0}},
	} {
		for range 2 { // the second is another process
			n, end := next(t, s)
			if err := n.Set(step.fds); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			all := n.All()
			for j, want := range step.want {
				if slices.Contains(all, want) != (want != 0) {
					t.Errorf("step %d: all are %d, without %d", i, all, want)
				}
				if got, is := n.Of(f[j]); got != want || is != (want != 0) {
					t.Errorf("step %d: file %d has number %d, want %d", i, j, got, want)
				}
			}
			end()
		}
	}
	n, end := next(t, s)
	defer end()
	if err := n.Set(f[1:3]); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if got, is := n.Of(f[1]); got != 101 || !is {
		t.Errorf("after an error file 1 has number %d", got)
	}
	if err := n.Set([]int{-1}); !errors.Is(err, unix.EBADF) {
		t.Errorf("no file: %v", err)
	}
	if _, is := n.Of(-1); is {
		t.Error("no file has a number")
	}
}

// TestWithoutKeeper: numbers need nobody who keeps them; nil has none.
func TestWithoutKeeper(t *testing.T) {
	f := files(t, 1)
	n, err := New(nil, first, count)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Set(f); err != nil {
		t.Fatal(err)
	}
	if got, is := n.Of(f[0]); got != first || !is {
		t.Errorf("number %d", got)
	}
	var none *Numbers
	if _, is := none.Of(f[0]); is || none.Set(f) != nil {
		t.Error("nil has numbers")
	}
	if all := none.All(); all != nil {
		t.Errorf("nil has %d", all)
	}
	none.Close()
}

// encoded is what a process leaves that has these words, and files with these numbers.
func encoded(words []uint32, numbers ...uint32) (b []byte) {
	for _, w := range words {
		b = little.AppendUint32(b, w)
	}
	for i, number := range numbers {
		b = little.AppendUint64(little.AppendUint64(b, 1), uint64(i/2))
		b = little.AppendUint32(b, number)
	}
	return b
}

// TestBadNumbers: what isn't of the right form is refused as a whole.
func TestBadNumbers(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":                    nil,
		"another version":            encoded([]uint32{2, 100, 0}),
		"next before the first":      encoded([]uint32{1, 99, 0}),
		"next after the last":        encoded([]uint32{1, 105, 0}),
		"too few files":              encoded([]uint32{1, 102, 2}, 100),
		"files without end":          encoded([]uint32{1, 102, 1 << 31}, 100),
		"a number that isn't in use": encoded([]uint32{1, 101, 1}, 101),
		"a number before the first":  encoded([]uint32{1, 101, 1}, 99),
		"a number twice":             encoded([]uint32{1, 103, 3}, 100, 101, 100),
		"a file twice":               encoded([]uint32{1, 102, 2}, 100, 101),
	} {
		s := keepertest.Store{}
		c, err := checkpoint.Create(room)
		if err == nil {
			err = errors.Join(c.Write(b), s.KeepOwn(uint32(remains.Numbers), c.FD()), c.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := remains.New(s, s.Given(t))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := New(r, first, count); n != nil || !errors.Is(err, ErrLeft) {
			t.Errorf("%s: %v", name, err)
		}
		r.Close()
		s.Close()
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encoded([]uint32{1, 102, 1}, 101))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := &Numbers{first: first, end: first + count}
		if err := n.parse(b); err != nil {
			return
		}
		if n.next < first || n.next > n.end || len(n.of) > count {
			t.Errorf("%+v", n)
		}
	})
}
