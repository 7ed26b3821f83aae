// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// MaxSize is the largest queue size (virtio 1.3, 2.7).
const MaxSize = inflight.MaxSize

// Descriptor flags (virtio 1.3, 2.7.5).
const (
	descNext     = 1 // VIRTQ_DESC_F_NEXT
	descWrite    = 2 // VIRTQ_DESC_F_WRITE
	descIndirect = 4 // VIRTQ_DESC_F_INDIRECT
)

// Ring flags (virtio 1.3, 2.7.6 and 2.7.8).
const (
	availNoInterrupt = 1 // VIRTQ_AVAIL_F_NO_INTERRUPT
	usedNoNotify     = 1 // VIRTQ_USED_F_NO_NOTIFY
)

const (
	descSize     = 16 // le64 addr, le32 len, le16 flags, le16 next
	ringHeader   = 4  // le16 flags, le16 idx
	usedElemSize = 8  // le32 id, le32 len
	eventSize    = 2  // le16 used_event or avail_event
)

// DescBytes returns the length of the descriptor table of a queue.
func DescBytes(size uint16) uint64 { return descSize * uint64(size) }

// AvailBytes returns the length of the avail ring, with used_event if eventIdx is on.
func AvailBytes(size uint16, eventIdx bool) uint64 {
	return ringHeader + 2*uint64(size) + eventBytes(eventIdx)
}

// UsedBytes returns the length of the used ring, with avail_event if eventIdx is on.
func UsedBytes(size uint16, eventIdx bool) uint64 {
	return ringHeader + usedElemSize*uint64(size) + eventBytes(eventIdx)
}

func eventBytes(eventIdx bool) uint64 {
	if eventIdx {
		return eventSize
	}
	return 0
}

// descriptor is one entry of a descriptor table, copied.
type descriptor struct {
	addr  uint64
	len   uint32
	flags uint16
	next  uint16
}

// readDescriptor copies entry i of a table, once, and decodes the copy.
func readDescriptor(table []byte, i uint16) descriptor {
	var raw [descSize]byte
	copy(raw[:], table[descSize*int(i):descSize*int(i)+descSize])
	return descriptor{
		addr:  binary.LittleEndian.Uint64(raw[0:]),
		len:   binary.LittleEndian.Uint32(raw[8:]),
		flags: binary.LittleEndian.Uint16(raw[12:]),
		next:  binary.LittleEndian.Uint16(raw[14:]),
	}
}
