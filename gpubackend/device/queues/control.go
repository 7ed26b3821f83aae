// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// ControlRecord is the record of the control queue: the previous process's, if the queue ran when
// that died, else a new one; nil without a keeper. again says that it is the previous one.
func ControlRecord(
	c vhostuser.QueueConfig, mem *guestmem.Memory, r *remains.Remains, log *logrus.Entry,
) (record *inflight.Region, again bool) {
	if r == nil {
		return nil, false
	}
	if fd, left := r.Take(remains.Control); left {
		defer unix.Close(fd)
		record, err := openRecord(fd, c.Size)
		if err == nil {
			_, _, err = record.Queue(0).Recover(usedAt(mem, c.Used))
		}
		if err == nil {
			return record, true
		}
		_ = record.Close()
		log.WithError(err).Warn("take over the control queue")
	}
	return newRecord(c.Size, r, remains.Control, log), false
}
