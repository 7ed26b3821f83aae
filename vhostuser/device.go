// SPDX-License-Identifier: Apache-2.0

package vhostuser

// Device is what the session serves to the front end. The session calls it from one goroutine. An
// error refuses the message that caused the call.
type Device interface {
	// NumQueues returns how many queues there are, from 1 to MaxQueues. It must not change.
	NumQueues() int

	// Features returns the device's own feature bits. The session adds those of the rings.
	Features() uint64

	// SetFeatures tells which features the driver accepted, ring features included. It is called
	// while no queue runs.
	SetFeatures(features uint64) error

	// ReadConfig returns the config space from offset on, at most size bytes. What is missing
	// at the end reads as zeros.
	ReadConfig(offset, size uint32) ([]byte, error)

	// WriteConfig takes a write of the driver, or of QEMU, which always writes the whole space.
	WriteConfig(offset uint32, data []byte) error

	// SetMemory gives the memory of the guest, a snapshot that doesn't change. When it returns
	// nil, memory given before must not be in use any more, save for regions that are in both.
	// Queues keep running if the new memory contains the old; otherwise none runs. On error
	// the old memory stays in force.
	SetMemory(mem *Memory) error

	// StartQueue starts a queue. The device must look at its ring at once, as kicks from before
	// may be lost. The descriptors in q belong to the session: they are good until StopQueue
	// returns, Call until SetCall returns.
	StartQueue(index int, q QueueConfig) error

	// SetCall changes the call descriptor of a running queue; nil means that the driver wants
	// no interrupts.
	SetCall(index int, call *FD) error

	// StopQueue stops a running queue. When it returns, the device doesn't touch the ring, the
	// buffers of the driver or the descriptors any more, whatever the error. It returns the
	// avail index with which the queue goes on if it is started again. The front end waits, and
	// its guest with it: what could take for ever must have a bound.
	StopQueue(index int) (base uint16, err error)

	// Abandon says that the queues are about to be stopped for good, and that Reset follows: the
	// device needn't finish what they began.
	Abandon()

	// Reset puts the device into its first state. Only its memory stays. No queue runs.
	Reset()
}

// QueueConfig has all that is needed to serve a queue. Addresses are guest-physical, and each ring
// lies wholly in one region of the memory that was set last.
type QueueConfig struct {
	Size              uint16
	Desc, Avail, Used uint64
	Base              uint16 // avail index to begin with
	Features          uint64 // what the driver accepted

	Kick *FD // readable when the driver has work; nil: the device must poll
	Call *FD // to Signal when the driver wants an interrupt; nil: it wants none
	Err  *FD // to Signal when the queue breaks; can be nil

	// Resumed says that the queue ran when the session was restored, in the process before this
	// one. Base is where it began there: the device has to know where it stands.
	Resumed bool
}

// EventIdx reports whether the driver accepted VIRTIO_F_EVENT_IDX.
func (q QueueConfig) EventIdx() bool { return q.Features&FeatureEventIdx != 0 }

// Indirect reports whether the driver accepted VIRTIO_F_INDIRECT_DESC.
func (q QueueConfig) Indirect() bool { return q.Features&FeatureIndirect != 0 }
