// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"net"
	"os"

	"github.com/paracuda/paracuda/gpubackend/device/incoming"
	"github.com/paracuda/paracuda/gpubackend/device/outgoing"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// joinMigration makes the parts that send device memory ahead of a migration, and that take it.
func (d *Device) joinMigration() {
	c := &d.config
	header := precopy.Header{GPU: c.GPU, Version: c.Build}
	d.outgoing = outgoing.New(outgoing.Config{
		Header: header, Passes: d.passes, Limit: c.Timeouts.Answer, Log: d.log,
	})
	d.incoming = incoming.New(incoming.Config{
		Header: header, Channels: d.channels.Len(), Answer: c.Timeouts.Answer,
		Suits: func() error {
			if d.control.Runs() {
				return errors.New("this device serves a VM already")
			}
			return nil
		},
		Room: func() (uint64, error) { return c.HostMemory() },
		Most: func() uint64 { return d.settings.Now().Settings.SuspendMemory },
	})
}

// went is what went ahead of a VM that is migrated. For a VM that is saved while it stands, in a
// snapshot, that is nothing: the snapshot has everything.
func (d *Device) went() saving.Ahead {
	if !d.live.Load() {
		return &outgoing.Went{}
	}
	return d.outgoing.Finish()
}

// image is what came ahead of a program.
func (d *Device) image(session uint64, channel int) (*os.File, error) {
	return d.incoming.Image(session, channel)
}

// precopyTo sends device memory ahead.
func (d *Device) precopyTo(c *net.UnixConn, tell func(suspend.Progress)) (uint64, error) {
	return d.outgoing.Send(c, func(p outgoing.Progress) {
		now := suspend.Progress{Done: p.Bytes}
		if p.Whole {
			now.All = max(1, p.Bytes)
		}
		tell(now)
	})
}

// precopyFrom takes what comes.
func (d *Device) precopyFrom(c *net.UnixConn, tell func(suspend.Progress)) (uint64, error) {
	return d.incoming.Receive(c, func(bytes uint64) { tell(suspend.Progress{Done: bytes}) })
}
