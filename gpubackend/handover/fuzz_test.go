// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// FuzzMessage: a message of the other side, with so many files, is refused, or is one that this
// side would send, with the files that it names. Afterwards no file is open, and the next message
// is read.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"Kind":"start","GPU":"soft","Queue":{"Size":256},"Files":{"Kick":true}}`), 1)
	f.Add([]byte(`{"Kind":"start","Files":{"Gate":true,"Ledger":true,"Memory":2}}`), 2+GateFiles+1)
	f.Add([]byte(`{"Kind":"memory","Files":{"Memory":-1}}`), 0)
	f.Add([]byte(`{"Kind":"start","Files":{"Memory":9223372036854775807,"Kick":true}}`), 1)
	f.Add([]byte(`{"Kind":"memory","Files":{"Memory":250}}`), maxFiles)
	f.Add([]byte(`{"Kind":"stop","Files":{"Object":true}}`), 1)
	f.Add([]byte(`{"Kind":`), 2)
	f.Fuzz(func(t *testing.T, b []byte, files int) {
		if len(b) == 0 || len(b) > maxMessage || files < 0 || files > maxFiles {
			return
		}
		there, back := pair(t)
		before := leaks.Descriptors(t)
		var rights []byte
		if files > 0 {
			rights = unix.UnixRights(make([]int, files)...)
		}
		if _, _, err := there.c.WriteMsgUnix(b, rights, nil); err != nil {
			t.Fatal(err)
		}
		m, fds, err := back.Receive()
		if err == nil {
			named(t, m, fds)
			again(t, there, back, m, fds)
		} else if fds != nil || m != nil {
			t.Errorf("a message with an error: %+v", m)
		}
		CloseFiles(fds)
		if n := leaks.Descriptors(t); n != before {
			t.Errorf("%d files are open, not %d", n, before)
		}
		if err := there.Send(&Message{Kind: KindStart}, nil); err != nil {
			t.Fatal(err)
		}
		if m, _, err := back.Receive(); err != nil || m.Kind != KindStart {
			t.Errorf("the next message is %+v, %v", m, err)
		}
	})
}

// named checks that each file has one name.
func named(t *testing.T, m *Message, fds []int) {
	t.Helper()
	n := m.Name(fds)
	all := append(append([]int{n.Kick, n.Call, n.State, n.Conn, n.Object, n.Ring,
		n.Wake, n.Image, n.Log, n.Listener, n.Ledger},
		n.Gate...), append(n.Lanes, n.Memory...)...)
	seen := map[int]bool{}
	for _, fd := range all {
		if fd >= 0 && seen[fd] {
			t.Errorf("%+v: two have the same", n)
		}
		seen[fd] = true
	}
	for _, fd := range fds {
		if !seen[fd] {
			t.Errorf("%+v: descriptor %d has no name", n, fd)
		}
	}
	if len(n.Memory) != m.Files.Memory {
		t.Errorf("%d files of memory, want %d", len(n.Memory), m.Files.Memory)
	}
}

// again sends a message that was received, and checks that the same comes, unless it has become too
// long.
func again(t *testing.T, there, back *Conn, m *Message, fds []int) {
	t.Helper()
	want, _, err := m.packed(fds)
	if err != nil {
		return
	}
	if err := there.Send(m, fds); err != nil {
		t.Fatal(err)
	}
	got, more, err := back.Receive()
	defer CloseFiles(more)
	if err != nil || len(more) != len(fds) {
		t.Fatalf("%d files, not %d, %v", len(more), len(fds), err)
	}
	if have, _, err := got.packed(more); err != nil || !bytes.Equal(want, have) {
		t.Errorf("%s, sent as %s, %v", have, want, err)
	}
}
