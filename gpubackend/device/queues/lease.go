// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/vhostuser"
)

// Lease is a queue that runs, and can be handed to a worker. It has its own descriptors.
type Lease struct {
	queue      handover.Queue
	Kick, Call *vhostuser.FD // Call is nil if the driver wants no interrupt
}

// NewLease makes one from what the front end says.
func NewLease(q vhostuser.QueueConfig) (*Lease, error) {
	if q.Kick == nil {
		return nil, errors.New("queue without a kick descriptor")
	}
	l := &Lease{queue: handover.Queue{
		Size: q.Size, Desc: q.Desc, Avail: q.Avail, Used: q.Used, EventIdx: q.EventIdx(),
	}}
	var err error
	if l.Kick, err = q.Kick.Dup(); err != nil {
		return nil, err
	}
	if err := l.setCall(q.Call); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lease) setCall(call *vhostuser.FD) (err error) {
	if l.Call != nil {
		_ = l.Call.Close()
		l.Call = nil
	}
	if call != nil {
		l.Call, err = call.Dup()
	}
	return err
}

// Close closes its descriptors.
func (l *Lease) Close() {
	_ = l.Kick.Close()
	if l.Call != nil {
		_ = l.Call.Close()
	}
}
