// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
)

// ServeAdmin answers the owner of the VM on a control socket until it is closed.
func (d *Device) ServeAdmin(l net.Listener) {
	(&admin.VM{
		Set: d.Set, Holds: d.settings.Holds, Stats: d.figures.Owner, Movable: d.saving.Movable,
		MayChange: d.place.MayChange,
		Suspend:   d.suspension.Suspend, Resume: d.suspension.Resume,
		SuspendKilling: d.suspension.SuspendKilling,
		Trouble:        d.config.Trouble, Version: d.config.Build, Replace: d.replace(),
		SuspendTo: d.saving.Save, ResumeFrom: d.saving.Load, MayGo: d.away.Prepare,
		PrecopyTo: d.precopyTo, PrecopyFrom: d.precopyFrom,
		Expect: d.expect, Guard: d.guard, Log: d.log,
	}).Serve(l)
}

// Before another process takes this one's place, workers that are to begin cold are awaited for so
// long: one of an older version may not know of programs that have lost a warm worker.
const (
	coldPatience = 5 * time.Second // less than a client waits for an answer
	coldLook     = 10 * time.Millisecond
)

// replace returns what makes another process take this one's place; nil: that isn't possible.
func (d *Device) replace() func() error {
	if d.config.Replace == nil {
		return nil
	}
	return func() error {
		for begin := time.Now(); d.channels.AnyAwaited() && time.Since(begin) < coldPatience; {
			time.Sleep(coldLook)
		}
		return d.config.Replace()
	}
}

// expect takes the file of a VM that was away, which the caller closes.
func (d *Device) expect(f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("keep the file: %w", err)
	}
	own := os.NewFile(uintptr(fd), "state")
	file, err := saving.OpenFile(own, d.config.GPU, d.config.Build)
	if err == nil {
		err = d.infile.Expect(file)
	}
	if err != nil {
		own.Close()
	}
	return err
}

// Figures are the numbers that an arbiter gets of the VM now and then.
func (d *Device) Figures() *link.Figures { return d.figures.Arbiter() }

// Warm is what an arbiter is told of the VM's warm workers.
func (d *Device) Warm() *link.Warm {
	want, used := d.ahead.Wants()
	return &link.Warm{Want: want, Used: used}
}

// WarmNews signals that Warm has changed.
func (d *Device) WarmNews() <-chan struct{} { return d.ahead.News() }

// BoundWarm bounds how many workers are kept warm, whatever the VM's owner wants; ahead.Any: no
// bound.
func (d *Device) BoundWarm(n int) { d.ahead.Bound(n) }

// AnyWarm is the bound that is none.
const AnyWarm = ahead.Any
