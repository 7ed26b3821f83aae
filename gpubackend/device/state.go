// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// What a VM takes along when its front end saves or migrates it: what its driver was told when it
// greeted the device, and is going to rely on; and its programs (package saving). Its queues are
// stopped, and what workers had begun has ended.

var errBusyVM = errors.New("the VM can't be saved or migrated now")

// SaveState implements vhostuser.StateSaver. Nothing ends: the VM may go on here.
func (d *Device) SaveState(w io.Writer) error {
	why, s := d.unsaved(), d.state()
	if why != nil {
		return fmt.Errorf("%w: %w", errBusyVM, why)
	}
	if _, err := w.Write(s.Encode()); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	switch s.Programs {
	case savedstate.None:
		return nil
	case savedstate.InFile:
		return d.saveInFile(w)
	}
	buffered := bufio.NewWriterSize(w, streamBuffer)
	if err := d.saving.Copy(buffered); err != nil {
		return fmt.Errorf("%w: %w", errBusyVM, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// streamBuffer is how much of a stream is on its way here.
const streamBuffer = 1 << 20

// unsaved says what keeps the VM from being saved, as far as it is known without asking its
// workers.
func (d *Device) unsaved() error {
	if err := d.channels.Stays(); err != nil {
		return err
	}
	handles, _ := d.exports.Held()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state := d.suspension.State(); {
	case handles > 0:
		return errors.New("programs in it hold descriptors of GPU memory: end them first")
	case d.late.Open():
		return errors.New("a request of its driver's isn't answered yet")
	case state == suspend.Suspended && d.serves():
		return errors.New("it is suspended: resume it first")
	}
	return nil
}

// serves says whether there is a program with a worker.
func (d *Device) serves() bool { return len(d.channels.Serving()) > 0 }

// state is what is saved.
func (d *Device) state() *savedstate.State {
	told := d.settings.Told()
	s := savedstate.New(savedstate.State{
		Version:  d.config.Version,
		Channels: told.Channels, ArenaBytes: told.ArenaBytes, Sequence: told.Sequence,
	})
	if d.channels.Greeted() {
		s.Greeted = 1
	}
	switch {
	case d.serves():
		s.Programs = savedstate.InStream
	case d.saving.InFile() != nil:
		s.Programs = savedstate.InFile
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Generation = d.generation
	return s
}

// LoadState implements vhostuser.StateSaver.
func (d *Device) LoadState(r io.Reader) error {
	s, err := savedstate.Read(r)
	if err != nil {
		return err
	}
	if err := d.suits(s); err != nil {
		return err
	}
	if err := d.takeWhatFollows(s, r); err != nil {
		return err
	}
	d.follow(s)
	if s.Greeted != 0 && d.config.Greeted != nil {
		d.config.Greeted()
	}
	return nil
}

// takeWhatFollows takes the programs of a state, in place of those that there are.
func (d *Device) takeWhatFollows(s *savedstate.State, r io.Reader) error {
	switch s.Programs {
	case savedstate.None:
		d.forget()
		d.tellUnused()
		return nil
	case savedstate.InFile:
		b, err := savedstate.ReadFile(r, saving.MaxInFile)
		if err != nil {
			return err
		}
		return d.takeInFile(b)
	}
	defer d.tellUnused()
	return d.takePrograms(bufio.NewReaderSize(r, streamBuffer))
}

// follow goes on where the device of a state stopped.
func (d *Device) follow(s *savedstate.State) {
	d.channels.Expect(s.Greeted != 0)
	d.mu.Lock()
	d.generation = s.Generation
	d.mu.Unlock()
	d.settings.Follow(s.Sequence) // so that the driver asks for the settings of this device
}

// takePrograms makes workers of a stream's programs, in place of those that there are.
func (d *Device) takePrograms(r io.Reader) error {
	programs, err := d.saving.Arrive(r)
	if err != nil {
		return err
	}
	d.forget()
	if err := programs.Take(); err != nil {
		return err
	}
	if err := savedstate.End(r); err != nil {
		d.forget()
		return err
	}
	return nil
}

// suits says why this device can't take up a VM with that state.
func (d *Device) suits(s *savedstate.State) error {
	here := d.state()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.control != nil:
		return fmt.Errorf("%w: this device serves a VM already", savedstate.ErrState)
	case s.Programs == savedstate.InStream && d.suspension.State() != suspend.Running:
		return fmt.Errorf("%w: this device is suspended: resume it first", savedstate.ErrState)
	}
	return s.Suits(here)
}

// forget ends all that the device has of the guest that it served until now: QEMU's loadvm puts
// another in its place, or an earlier state of it.
func (d *Device) forget() {
	d.Reset()
	d.channels.ForgetHeld()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late != nil {
		d.late.Drop()
		d.late = nil
	}
}
