// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue"
)

// kept counts the maps whose chains went back when they were taken: a queue has few entries, but a
// program may pin any number of ranges. The guest's kernel leaves their pages in place until it is
// told their ids, or until the arena comes back. A Queue owns it, under its lock, and calls take
// and letGo for each map, and told after it has written an EVENT's record.
type kept struct {
	host *budget.Budget
	maps int      // how many the guest's kernel still counts
	gone []uint32 // ids of those that the guest is yet to be told
}

// mapBytes is what a map takes of the host's memory in addition to its runs.
const mapBytes = 256

// keep makes a map known, and returns its chain. If the host has no memory for it, it is kept
// without its pages, so that commands that name it get the right error.
func (q *Queue) keep(c *virtqueue.Chain, m *maps.Map) error {
	if c.Writable()[0].Len < wire.MapRecordSize {
		return errors.New("map without room for a record")
	}
	if q.kept.maps >= wire.KeptMaps {
		return fmt.Errorf("more than %d maps are kept", wire.KeptMaps)
	}
	var raw [wire.MapRecordSize]byte
	r := wire.MapRecord{Kept: 1}
	r.Encode(raw[:])
	if err := q.mem.Write(raw[:], c.Writable()[0].Addr); err != nil {
		return fmt.Errorf("map record: %w", err)
	}
	q.kept.take(m)
	q.know(m)
	q.giveLocked(m.Head, wire.MapRecordSize)
	return nil
}

// take counts a map.
func (k *kept) take(m *maps.Map) {
	k.maps++
	m.Kept = true
	bytes := mapBytes + uint64(len(m.Runs))*wire.RunSize
	if k.host.Take(bytes) != nil {
		m.Runs = nil
		return
	}
	m.Counted = bytes
}

// letGo lets the guest be told that a map goes back.
func (k *kept) letGo(m *maps.Map) {
	k.host.Give(m.Counted)
	k.gone = append(k.gone, m.ID)
}

// record makes the content of an EVENT: whether to wake threads, and as many maps that go back as
// fit.
func (k *kept) record(raw *[wire.EventRecordSize]byte, wake bool) (record []byte, maps int) {
	maps = min(len(k.gone), (wire.EventRecordSize-wire.EventRecordMapsOffset)/4)
	events := uint32(0)
	if wake {
		events |= wire.EventCompletion
	}
	if maps > 0 {
		events |= wire.EventReturned
	}
	record = binary.LittleEndian.AppendUint32(raw[:0], events)
	record = binary.LittleEndian.AppendUint32(record, uint32(maps))
	for _, id := range k.gone[:maps] {
		record = binary.LittleEndian.AppendUint32(record, id)
	}
	return record, maps
}

// told says that the guest knows of the first of the maps that go back.
func (k *kept) told(maps int) {
	k.maps -= maps
	k.gone = append(k.gone[:0], k.gone[maps:]...)
}
