// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// If a Store keeps them, objects and handles outlive this process: a later one takes them over,
// with the workers that offer them. A state is, little-endian: u32 version (2), u32 last handle,
// u64 last id, u32 last import, u32 how many objects follow, then for each
//
//	u32 kind (1 memory, 2 pool), u32 number, u64 bytes, u64 GPU, u64 token, u64 id
//	u32 channel of the worker that offers it, 0xffffffff once that, or the object in it, is gone
//	u32 slot of its file, 0xffffffff for none: it is a pool, or awaited (saved.go)
//	u32 how many handles follow, then each as u32
//
// and then u32 how many of these objects are owed to programs, and for each
//
//	u32 channel, u32 number by which it was imported, u32 which object, from 0 on
//
// A file is kept before a state names it, and dropped after the last one that does. Objects for
// whose files there are no slots aren't kept, nor is what a worker offered in the moment in which
// this process died: a request for them fails.

// Store keeps what a later process takes over. It is called with a lock held, and must not wait.
type Store interface {
	Write(state []byte)
	Keep(slot, fd int)
	Drop(slot int)
}

// Slots is how many files are kept.
const Slots = 256

const (
	keptVersion = 2
	none        = 0xffffffff
	headBytes   = 24
	objectBytes = 52
	owedBytes   = 12
)

// mostBytes is more than any memory has, so that sums stay small.
const mostBytes = 1 << 48

// MostState is the length of the longest state.
const MostState = headBytes + Slots*objectBytes + (maxOffers*wire.MaxChannels)*objectBytes +
	maxHandles*(4+objectBytes) + 4 + wire.MaxChannels*maxOwed*owedBytes

// ErrState marks a state that can't be used.
var ErrState = errors.New("bad state of exported objects")

var little = binary.LittleEndian

var kinds = []handover.ObjectKind{1: handover.ObjectMemory, 2: handover.ObjectPool}

// KeepIn makes a Store keep what there is, and all later changes.
func (e *Exports) KeepIn(s Store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.store = s
	e.note()
}

// Serves says which channel a worker serves, before it offers anything. Its program is a new one.
func (e *Exports) Serves(w *Worker, channel int) {
	e.Forget(channel)
	e.mu.Lock()
	defer e.mu.Unlock()
	w.channel = channel
}

// keepFile lets the Store keep the file of an object, if there is a slot.
func (e *Exports) keepFile(x *exported) {
	if x.slot = -1; e.store == nil || x.file < 0 {
		return
	}
	if x.slot = slices.Index(e.slots[:], false); x.slot >= 0 {
		e.slots[x.slot] = true
		e.store.Keep(x.slot, x.file)
	}
}

// note writes the state, and drops the files of objects that are gone.
func (e *Exports) note(gone ...*exported) {
	if e.store == nil {
		return
	}
	e.store.Write(e.encode(true))
	for _, x := range gone {
		if x != nil && x.slot >= 0 {
			e.store.Drop(x.slot)
			e.slots[x.slot], x.slot = false, -1
		}
	}
}

// all lists the objects, with their handles in order.
func (e *Exports) all() map[*exported][]uint32 {
	all := map[*exported][]uint32{}
	for _, x := range e.offers {
		all[x] = nil
	}
	for handle, x := range e.handles {
		all[x] = append(all[x], handle)
	}
	for _, handles := range all {
		slices.Sort(handles)
	}
	return all
}

// encode is the state with the files that are kept, or without all files.
func (e *Exports) encode(files bool) []byte {
	all := e.all()
	b := little.AppendUint32(little.AppendUint32(nil, keptVersion), e.last)
	b = little.AppendUint32(little.AppendUint64(b, e.ids), e.imports)
	count := len(b)
	b = little.AppendUint32(b, 0)
	places := map[*exported]uint32{}
	for x, handles := range all {
		channel, slot := uint32(none), uint32(none)
		if x.worker != nil && !x.gone {
			channel = uint32(x.worker.channel)
		}
		if x.slot >= 0 && files {
			slot = uint32(x.slot)
		}
		if x.Kind == handover.ObjectMemory && slot == none &&
			(channel == none || files && !x.awaited) {
			continue
		}
		places[x] = uint32(len(places))
		b = little.AppendUint32(b, uint32(slices.Index(kinds, x.Kind)))
		b = little.AppendUint32(b, x.Number)
		for _, v := range []uint64{x.Bytes, x.GPU, x.Token, x.ID} {
			b = little.AppendUint64(b, v)
		}
		for _, v := range append([]uint32{channel, slot, uint32(len(handles))}, handles...) {
			b = little.AppendUint32(b, v)
		}
	}
	little.PutUint32(b[count:], uint32(len(places)))
	return e.encodeOwed(b, places)
}

// encodeOwed adds what programs are owed, by the places of the objects.
func (e *Exports) encodeOwed(b []byte, places map[*exported]uint32) []byte {
	count, n := len(b), uint32(0)
	b = little.AppendUint32(b, 0)
	for w := range e.owing {
		for _, x := range w.owed {
			if place, ok := places[x.object]; ok {
				b = little.AppendUint32(little.AppendUint32(b, uint32(w.channel)), x.number)
				b = little.AppendUint32(b, place)
				n++
			}
		}
	}
	little.PutUint32(b[count:], n)
	return b
}

// TakeOver takes the state of an earlier process, and the files that it kept, by slot, and owns
// them all. Rejoin is called next for each worker that goes on.
func (e *Exports) TakeOver(state []byte, files map[int]int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.decode(state, files)
	if err != nil {
		for _, x := range e.offers {
			x.file = -1 // it is in files
		}
		e.forgetAll()
		e.slots = [Slots]bool{}
	}
	for _, x := range append(e.offered(), e.handled()...) {
		if x.slot >= 0 {
			delete(files, x.slot)
		}
	}
	for _, fd := range files {
		handover.CloseFiles([]int{fd})
	}
	return err
}

func (e *Exports) offered() (list []*exported) {
	for _, x := range e.offers {
		list = append(list, x)
	}
	return list
}

func (e *Exports) handled() (list []*exported) {
	for _, x := range e.handles {
		list = append(list, x)
	}
	return list
}

// decode reads a state, which may be any bytes.
func (e *Exports) decode(b []byte, files map[int]int) error {
	if len(b) < headBytes || little.Uint32(b) != keptVersion {
		return fmt.Errorf("%w: not of version %d", ErrState, keptVersion)
	}
	e.last, e.ids, e.imports = little.Uint32(b[4:]), little.Uint64(b[8:]), little.Uint32(b[16:])
	n := little.Uint32(b[20:])
	b = b[headBytes:]
	var objects []*exported
	for range n {
		if len(b) < objectBytes {
			return fmt.Errorf("%w: it is cut off", ErrState)
		}
		handles := little.Uint32(b[48:])
		if uint64(len(b)-objectBytes) < 4*uint64(handles) {
			return fmt.Errorf("%w: %d handles", ErrState, handles)
		}
		x, err := e.decodeObject(b[:objectBytes+4*handles], files)
		if err != nil {
			return err
		}
		objects, b = append(objects, x), b[objectBytes+4*handles:]
	}
	return e.decodeOwed(b, objects)
}

// decodeOwed reads what programs are owed, to the end of a state.
func (e *Exports) decodeOwed(b []byte, objects []*exported) error {
	if len(b) < 4 || uint64(len(b)-4) != owedBytes*uint64(little.Uint32(b)) {
		return fmt.Errorf("%w: %d bytes are behind the objects", ErrState, len(b))
	}
	for b = b[4:]; len(b) > 0; b = b[owedBytes:] {
		channel, place := little.Uint32(b), little.Uint32(b[8:])
		if channel >= wire.MaxChannels || uint64(place) >= uint64(len(objects)) {
			return fmt.Errorf("%w: channel %d is owed object %d", ErrState, channel, place)
		}
		w := e.worker(int(channel))
		if len(w.owed) == maxOwed {
			return fmt.Errorf("%w: channel %d is owed too much", ErrState, channel)
		}
		e.owe(w, owed{little.Uint32(b[4:]), objects[place], true})
	}
	return nil
}

// worker stands for that of a channel until it goes on.
func (e *Exports) worker(channel int) *Worker {
	w := e.before[channel]
	if w == nil {
		w = &Worker{channel: channel}
		e.before[channel] = w
	}
	return w
}

func (e *Exports) decodeObject(b []byte, files map[int]int) (*exported, error) {
	kind, channel, slot := little.Uint32(b), little.Uint32(b[40:]), little.Uint32(b[44:])
	handles := b[objectBytes:]
	x := &exported{file: -1, slot: -1, Object: handover.Object{Number: little.Uint32(b[4:]),
		Bytes: little.Uint64(b[8:]), GPU: little.Uint64(b[16:]), Token: little.Uint64(b[24:]),
		ID: little.Uint64(b[32:])}}
	if kind == 0 || kind >= uint32(len(kinds)) || channel != none && channel >= wire.MaxChannels ||
		kinds[kind] == handover.ObjectMemory && slot == none && channel == none ||
		kinds[kind] == handover.ObjectPool && slot != none ||
		channel == none && len(handles) == 0 || x.Bytes > mostBytes {
		return nil, fmt.Errorf("%w: kind %d, channel %d, slot %d", ErrState, kind, channel, slot)
	}
	x.Kind = kinds[kind]
	x.awaited = x.Kind == handover.ObjectMemory && slot == none
	if slot != none {
		file, kept := files[int(slot)]
		if slot >= Slots || e.slots[slot] || !kept {
			return nil, fmt.Errorf("%w: the file in slot %d isn't there, or named twice", ErrState,
				slot)
		}
		x.slot, x.file, e.slots[slot] = int(slot), file, true
	}
	for i := 0; i < len(handles); i += 4 {
		handle := little.Uint32(handles[i:])
		if handle == 0 || e.handles[handle] != nil || len(e.handles) == maxHandles {
			return nil, fmt.Errorf("%w: handle %d twice, or too many", ErrState, handle)
		}
		e.handles[handle] = x
		x.handles++
	}
	if x.handles > 0 {
		e.bytes += x.Bytes
	}
	if channel == none {
		return x, nil
	}
	return x, e.decodeOffer(x, int(channel))
}

// decodeOffer enters an object that a worker still offers.
func (e *Exports) decodeOffer(x *exported, channel int) error {
	w := e.worker(channel)
	key := offer{w, x.Number}
	if e.offers[key] != nil || x.handles == 0 && w.offers == maxOffers {
		return fmt.Errorf("%w: channel %d offers number %d twice, or too much", ErrState, channel,
			x.Number)
	}
	x.worker = w
	e.offers[key] = x
	if w.handles += x.handles; x.handles == 0 {
		w.offers++
	}
	return nil
}

// Rejoin says that a worker goes on with a channel, and so with what was offered on it.
func (e *Exports) Rejoin(w *Worker, channel int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rejoin(w, channel)
}

func (e *Exports) rejoin(w *Worker, channel int) {
	w.channel = channel
	if was := e.before[channel]; was != nil {
		delete(e.before, channel)
		e.move(was, w)
	}
}

// move gives another worker all that one has.
func (e *Exports) move(from, to *Worker) {
	to.offers, to.handles = from.offers, from.handles
	from.offers, from.handles = 0, 0
	for _, x := range from.owed {
		e.owe(to, x)
	}
	e.owesNothing(from)
	e.moveHolders(from, to)
	for key, x := range e.offers {
		if key.worker == from {
			delete(e.offers, key)
			x.worker = to
			e.offers[offer{to, x.Number}] = x
		}
	}
}

// Rejoined says that no other worker goes on now: what others offered is as if they had ended, but
// for those whose programs are saved.
func (e *Exports) Rejoined(saved func(channel int) bool) {
	e.mu.Lock()
	before := e.before
	e.before = map[int]*Worker{}
	e.mu.Unlock()
	for _, w := range before {
		if saved(w.channel) {
			e.Leave(w)
		} else {
			e.Ended(w)
		}
	}
	e.mu.Lock()
	e.standFor(saved)
	e.mu.Unlock()
}
