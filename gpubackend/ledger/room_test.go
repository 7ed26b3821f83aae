// SPDX-License-Identifier: Apache-2.0

package ledger

import "testing"

// TestRoom: what is refused only for lack of room is told, once; what exceeds the bound isn't.
func TestRoom(t *testing.T) {
	p := newPage(t, 100)
	process := NewProcess()
	process.Join(p, 0)
	a := process.Account(testGPU)
	p.SetRoom(50)
	for _, test := range []struct {
		name  string
		kind  Kind
		bytes uint64
		ok    bool
		short uint64
	}{
		{"first", Window, 50, true, 0},
		{"no room", Window, 7, false, 7},
		{"mapped", Mapped, 8, false, 8},
		{"what asks for none", Contexts, 10, true, 0},
		{"more than the bound", Window, 41, false, 0},
		{"what asks for none, beyond the bound", Code, 41, false, 0},
	} {
		if ok := a.Take(test.kind, test.bytes); ok != test.ok {
			t.Errorf("%s: %t", test.name, ok)
		}
		if short := process.Short(); short != test.short {
			t.Errorf("%s: short of %d, want %d", test.name, short, test.short)
		}
		if process.Short() != 0 {
			t.Errorf("%s: told twice", test.name)
		}
	}
	a.Take(Window, 7)
	p.SetRoom(0)
	if !a.Take(Window, 7) || process.Short() != 0 || p.Room() != 0 {
		t.Error("without a room: refused, or short still")
	}
	if (*Process)(nil).Short() != 0 {
		t.Error("no process is short")
	}
}
