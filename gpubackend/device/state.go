// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
)

// What a VM takes along when it is saved or migrated. Programs that use the GPU can't be taken
// along: a VM that has some isn't saved. Of one that has none, what is left is what its driver was
// told when it greeted the device, and is going to rely on.

var errBusyVM = errors.New("the VM can't be saved or migrated now")

// SaveState implements vhostuser.StateSaver.
func (d *Device) SaveState(w io.Writer) error {
	why, s := d.unsaved(), d.state()
	if why != nil {
		return fmt.Errorf("%w: %w", errBusyVM, why)
	}
	if _, err := w.Write(s.Encode()); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// unsaved says what keeps the VM from being saved.
func (d *Device) unsaved() error {
	programs, err := d.channels.Programs()
	if err != nil {
		return err
	}
	handles, _ := d.exports.Held()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(programs) > 0:
		return fmt.Errorf("programs in it use the GPU: %s: end them first",
			strings.Join(programs, ", "))
	case handles > 0:
		return errors.New("programs in it hold descriptors of GPU memory: end them first")
	case d.late.Open():
		return errors.New("a request of its driver's isn't answered yet")
	}
	return nil
}

// state is what is saved.
func (d *Device) state() *savedstate.State {
	told := d.settings.Told()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := savedstate.New(savedstate.State{
		Version:    d.config.Version,
		Generation: d.generation, Channels: told.Channels,
		ArenaBytes: told.ArenaBytes, Sequence: told.Sequence,
	})
	if d.channels.Greeted() {
		s.Greeted = 1
	}
	return s
}

// LoadState implements vhostuser.StateSaver.
func (d *Device) LoadState(r io.Reader) error {
	s, err := savedstate.Read(r)
	if err != nil {
		return err
	}
	err = s.Suits(d.state())
	d.mu.Lock()
	if d.control != nil {
		err = fmt.Errorf("%w: this device serves a VM already", savedstate.ErrState)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	d.forget()
	d.channels.Expect(s.Greeted != 0)
	d.mu.Lock()
	d.generation = s.Generation
	d.mu.Unlock()
	d.settings.Follow(s.Sequence) // so that the driver asks for the settings of this device
	return nil
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
