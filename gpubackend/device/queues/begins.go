// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Begins says whether a driver begins a queue anew. Index 0 doesn't prove that: a queue is there
// again after 65,536 chains.
func Begins(c vhostuser.QueueConfig, mem *guestmem.Memory) bool {
	return !c.Resumed && c.Base == 0 && !Returned(c, mem)
}

// Returned says whether a chain ever went back to the driver of a queue: its used ring began as
// zeros (virtio 1.3, 4.1.5.1.3), and isn't any more.
func Returned(c vhostuser.QueueConfig, mem *guestmem.Memory) bool {
	if mem == nil {
		return false
	}
	elements := make([]byte, virtqueue.UsedBytes(c.Size, false)-usedElements)
	if mem.Read(elements, c.Used+usedElements) != nil {
		return false
	}
	for _, b := range elements {
		if b != 0 {
			return true
		}
	}
	return false
}

// usedElements is where the elements begin in a used ring, after flags and index.
const usedElements = 4
