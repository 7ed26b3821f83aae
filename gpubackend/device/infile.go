// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A VM that was suspended to a file may go on from it in another device process: the next one
// behind the same front end, which is told by the one before (package remains), or one to which the
// front end has moved the VM, or put it back, which is told by the VM's own state. The file is
// known by its sum. With Config.From it goes on as soon as its queues run.

// inFile is what the next process must know; nil: no program is in a file.
func (d *Device) inFile() []byte {
	if f := d.saving.InFile(); f != nil {
		return f.Encode()
	}
	return nil
}

// takeOverFile has the VM be in the file in which the process before had it. A worker whose program
// is in there, as that ended before it did, ends.
func (d *Device) takeOverFile(left *takeover.Left) {
	if d.config.InFile == nil {
		return
	}
	f, err := saving.DecodeInFile(d.config.InFile, d.channels.Len())
	if err == nil {
		err = d.suspension.TakeFile()
	}
	if err != nil {
		d.log.WithError(err).Error("programs that are in a file are lost")
		return
	}
	d.saving.TakeUp(f)
	workers := left.Workers
	left.Workers = nil
	for _, x := range workers {
		if !d.saving.Has(x.Channel) {
			left.Workers = append(left.Workers, x)
			continue
		}
		_ = x.Conn.Close()
		d.channels.LeftBy(x.Channel, x.State)
		d.config.Notes.Ended(x.Proc)
		left.Rest = append(left.Rest, x.Proc)
	}
}

// saveInFile writes what a VM takes along whose programs are in a file.
func (d *Device) saveInFile(w io.Writer) error {
	f := d.saving.InFile()
	if f == nil { // by now
		return fmt.Errorf("%w: it is being resumed", errBusyVM)
	}
	for i := range f.Programs {
		p := &f.Programs[i]
		p.Base, p.Held = d.channels.Standing(p.Channel)
	}
	if _, err := w.Write(savedstate.EncodeFile(f.Encode())); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// takeInFile has a VM that comes here be in the file in which it was there, in place of whatever
// there is here.
func (d *Device) takeInFile(b []byte) error {
	f, err := saving.DecodeInFile(b, d.channels.Len())
	if err != nil {
		return err
	}
	if from := d.config.From; from != nil && from.Sum != f.Sum {
		return fmt.Errorf("%w: the VM was suspended to another file than that of --from",
			savedstate.ErrState)
	}
	d.forget()
	d.ahead.Empty()
	if err := d.suspension.TakeFile(); err != nil {
		return err
	}
	for _, p := range f.Programs {
		d.channels.Comes(p.Channel, p.Base, p.Held)
	}
	d.saving.TakeUp(f)
	return nil
}

// resumeByItself has the VM go on from the file of Config.From, once, when it is the one in which
// its programs are, and their queues run.
func (d *Device) resumeByItself() {
	from := d.config.From
	if from == nil || !d.suspension.Status().Saved || !d.channels.FiledRun() {
		return
	}
	d.fromOnce.Do(func() {
		d.run("going on from a file", func() {
			if _, err := d.saving.Load(from.From, func(suspend.Progress) {}); err != nil {
				d.log.WithError(err).Error(
					"the VM stays suspended: paracuda resume --from FILE tries once more")
			}
		})
	})
}

// tellUnused says that the file of Config.From isn't the VM's.
func (d *Device) tellUnused() {
	if d.config.From != nil && !d.suspension.Status().Saved {
		d.fromOnce.Do(func() {
			d.log.Warn("the VM doesn't go on from the file of --from: its programs aren't in it")
		})
	}
}
