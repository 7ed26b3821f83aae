// SPDX-License-Identifier: Apache-2.0

package link

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// TestEnds: what one end says the other hears, both have the same ring, and a message carries an
// end.
func TestEnds(t *testing.T) {
	before := leaks.Descriptors(t)
	a, b, err := New()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	for _, pair := range [][2]int{{a.Conn, b.Conn}, {b.Conn, a.Conn}, {a.Wake, b.Wake}} {
		if _, err := unix.Write(pair[0], []byte("word")); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(pair[1], got); err != nil || string(got[:n]) != "word" {
			t.Errorf("%q, %v", got[:n], err)
		}
	}
	if _, err := unix.Read(a.Wake, got); err != unix.EAGAIN {
		t.Errorf("a wake-up that didn't come is waited for: %v", err)
	}
	var files [2]unix.Stat_t
	for i, e := range []Half{a, b} {
		if err := unix.Fstat(e.Ring, &files[i]); err != nil || !memfd.Sealed(e.Ring, RingBytes) {
			t.Errorf("ring %d: %v", i, err)
		}
	}
	if files[0].Ino != files[1].Ino || a.Ring == b.Ring {
		t.Error("each has a ring of its own, or both have one descriptor")
	}
	m := &handover.Message{Kind: handover.KindAttach}
	n := m.Name(a.Put(m))
	if Of(&n) != a || !a.Whole() || None.Whole() {
		t.Errorf("%+v comes as %+v", a, Of(&n))
	}
	a.Close()
	b.Close()
	if n := leaks.Descriptors(t); n != before {
		t.Errorf("%d files are open, %d before", n, before)
	}
}
