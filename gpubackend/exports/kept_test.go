// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// kept is a Store that another process reads.
type kept struct {
	t     *testing.T
	state []byte
	files map[int]int
}

func (k *kept) Write(state []byte) {
	if len(state) > MostState {
		k.t.Errorf("a state of %d bytes", len(state))
	}
	k.state = slices.Clone(state)
}

func (k *kept) Keep(slot, fd int) {
	if _, is := k.files[slot]; is {
		k.t.Errorf("slot %d has a file already", slot)
	}
	k.files[slot] = again(k.t, fd)
}

func (k *kept) Drop(slot int) {
	if unix.Close(k.files[slot]) != nil {
		k.t.Errorf("slot %d is dropped that isn't kept", slot)
	}
	delete(k.files, slot)
}

func again(t *testing.T, fd int) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// next is the Exports of a process that has taken over from one that died.
func (k *kept) next() *Exports {
	k.t.Helper()
	files := map[int]int{}
	for slot, fd := range k.files {
		files[slot] = again(k.t, fd)
	}
	e := New(manyFiles)
	if err := e.TakeOver(k.state, files); err != nil {
		k.t.Fatal(err)
	}
	e.KeepIn(k)
	return e
}

// nobody's program is saved.
func nobody(int) bool { return false }

// die closes what a process has.
func (e *Exports) die() {
	for x := range e.all() {
		handover.CloseFiles([]int{x.file})
	}
}

// TestOutliveTheProcess: handles and offers are there in process after process, of workers that go
// on and of others that have ended, and what isn't needed is dropped.
func TestOutliveTheProcess(t *testing.T) {
	before := files(t)
	k := &kept{t: t, files: map[int]int{}}
	e, one, other := New(manyFiles), &Worker{}, &Worker{}
	e.KeepIn(k)
	e.Serves(one, 4)
	e.Serves(other, 5)
	offered(t, e, one, 7, 10)
	offered(t, e, one, 8, 20)
	offered(t, e, other, 7, 30)
	offered(t, e, other, 9, 40)
	pool := handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 77, GPU: 5}
	e.Receive(one, &handover.Message{Object: &pool}, nil)
	a, b := claimed(t, e, one, 7, 0, wire.StatusOk), claimed(t, e, other, 7, 0, wire.StatusOk)
	c := claimed(t, e, one, 7, 0, wire.StatusOk)
	d := claimed(t, e, other, 9, 0, wire.StatusOk)
	imported := taken(t, e, a, other, wire.StatusOk).Import
	if status := e.Release(d); status != wire.StatusOk {
		t.Fatal(status)
	}
	for range 3 {
		e.die()
		e = k.next()
		one = &Worker{}
		e.Rejoin(one, 4)
		e.Rejoin(&Worker{}, 6)
		e.Rejoined(nobody) // the other has ended meanwhile
		if handles, bytes := e.Held(); handles != 3 || bytes != 40 {
			t.Fatalf("%d handles hold %d bytes", handles, bytes)
		}
		if o := taken(t, e, a, one, wire.StatusOk); o.Bytes != 10 || !o.Own ||
			o.Import <= imported {
			t.Errorf("%+v after import %d", o, imported)
		} else {
			imported = o.Import
		}
		if o := taken(t, e, b, one, wire.StatusOk); o.Bytes != 30 || o.Own {
			t.Errorf("%+v", o)
		}
		taken(t, e, d, one, wire.StatusNoObject)
		claimed(t, e, one, 9, 0, wire.StatusNoObject)
	}
	if n := len(k.files); n != 3 {
		t.Errorf("%d files are kept", n)
	}
	p := claimed(t, e, one, 3, 0, wire.StatusOk)
	if o, fd, _ := e.Take(p, one); o.Token != 77 || o.GPU != 5 || fd != -1 {
		t.Errorf("%+v, file %d", o, fd)
	}
	fresh := claimed(t, e, one, 8, 0, wire.StatusOk)
	if slices.Contains([]uint32{a, b, c, d}, fresh) || fresh == p {
		t.Errorf("handle %d is given twice", fresh)
	}
	e.Ended(one)
	for _, handle := range []uint32{a, b, c, p, fresh} {
		if status := e.Release(handle); status != wire.StatusOk {
			t.Errorf("handle %d: status %d", handle, status)
		}
	}
	if n := len(k.files); n != 0 || files(t) != before {
		t.Errorf("%d files are kept, and %d are left", n, files(t)-before)
	}
}

// TestMoreThanIsKept: what has no slot is there until the process dies.
func TestMoreThanIsKept(t *testing.T) {
	k := &kept{t: t, files: map[int]int{}}
	e, w := New(manyFiles), &Worker{}
	e.KeepIn(k)
	var handles []uint32
	for i := range uint32(Slots + 2) {
		offered(t, e, w, i, 1)
		handles = append(handles, claimed(t, e, w, i, 0, wire.StatusOk))
	}
	for _, handle := range handles {
		taken(t, e, handle, w, wire.StatusOk)
	}
	e.die()
	e = k.next()
	e.Rejoin(w, 0)
	if n, _ := e.Held(); n != Slots {
		t.Errorf("%d handles, want %d", n, Slots)
	}
	e.Ended(w)
	e.Clear()
	if len(k.files) != 0 {
		t.Errorf("%d files are kept of nothing", len(k.files))
	}
}

// TestBadStates are refused, and leave nothing.
func TestBadStates(t *testing.T) {
	k := &kept{t: t, files: map[int]int{}}
	e, w := New(manyFiles), &Worker{}
	e.KeepIn(k)
	offered(t, e, w, 1, 10)
	claimed(t, e, w, 1, 0, wire.StatusOk)
	claimed(t, e, w, 1, 0, wire.StatusOk)
	defer e.die()
	defer k.Drop(0)
	with := func(at int, v uint32) []byte {
		b := slices.Clone(k.state)
		little.PutUint32(b[at:], v)
		return b
	}
	of := func(b []byte, at int, v uint32) []byte {
		little.PutUint32(b[at:], v)
		return b
	}
	owing := func(b []byte, words ...uint32) []byte {
		for _, v := range words {
			b = little.AppendUint32(b, v)
		}
		return b
	}
	object := headBytes
	twice := with(20, 2)
	end := len(twice) - 4 // how much is owed follows the objects
	twice = append(twice[:end], append(bytes.Clone(twice[object:end]), 0, 0, 0, 0)...)
	for name, state := range map[string][]byte{
		"nothing": nil, "version": with(0, 1), "short": k.state[:len(k.state)-1],
		"long": append(slices.Clone(k.state), 0), "more": with(20, 2), "many": with(20, 1<<31),
		"kind": with(object, 3), "no kind": with(object, 0), "file of a pool": with(object, 2),
		"channel": with(object+40, 64), "slot": with(object+44, 1),
		"of nobody":  of(with(object+44, none), object+40, none),
		"many bytes": with(object+12, 1<<31),
		"handles":    with(object+48, 1<<30), "handle 0": with(object+52, 0),
		"handle twice": with(object+56, 1), "owes less": with(end, 1),
		"owed nothing":   owing(with(end, 1), 4, 0, 1),
		"owed to nobody": owing(with(end, 1), 64, 0, 0),
		"owed without end": owing(with(end, maxOwed+1),
			slices.Repeat([]uint32{4, 0, 0}, maxOwed+1)...),
		"object twice": twice,
	} {
		files := map[int]int{0: again(t, k.files[0])}
		e := New(manyFiles)
		if err := e.TakeOver(state, files); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		if handles, bytes := e.Held(); handles != 0 || bytes != 0 || len(e.all()) != 0 {
			t.Errorf("%s: %d handles are left of %d bytes", name, handles, bytes)
		}
	}
	if n := files(t); n != 2 { // this process's, and the kept one
		t.Errorf("%d files are open", n)
	}
}

func FuzzTakeOver(f *testing.F) {
	f.Add([]byte{})
	f.Add((&Exports{}).encode(true))
	f.Fuzz(func(t *testing.T, state []byte) {
		fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		e := New(manyFiles)
		_ = e.TakeOver(state, map[int]int{0: fd})
		e.Rejoined(nobody)
		e.Clear()
	})
}
