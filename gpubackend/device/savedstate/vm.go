// SPDX-License-Identifier: Apache-2.0

package savedstate

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ErrBusy marks what keeps a VM from being saved or migrated.
var ErrBusy = errors.New("the VM can't be saved or migrated now")

// Control is the control queue of a VM: control.Queue.
type Control interface {
	Runs() bool
	// Unanswered says whether it was stopped before a request was answered.
	Unanswered() bool
	// Generation is what the driver was told when it greeted. GoOnAs sets what the next driver is
	// told to what an earlier device told.
	Generation() uint32
	GoOnAs(generation uint32)
	// Vouchers is where the driver vouches for pages. SetVouchers sets that.
	Vouchers() uint64
	SetVouchers(address uint64)
}

// Greeting is what knows whether our driver has greeted: strangers.Watch.
type Greeting interface {
	Greeted() bool
	Expect(greeted bool)
}

// Settings are those of a VM: settings.VM.
type Settings interface {
	Told() *wire.Settings
	// Follow makes the driver, which has settings with that number, ask for this device's.
	Follow(sequence uint32)
}

// File is the file in which a VM's programs may be: infile.VM.
type File interface {
	// Has says whether programs are in a file.
	Has() bool
	// Save writes the description of that file. Take makes the VM one in the file that was
	// described, in place of what is there.
	Save(w io.Writer) error
	Take(r io.Reader) error
	// Unused is told that the VM isn't in a file.
	Unused()
}

// Objects are what the driver's handles stand for: exports.Exports.
type Objects interface {
	State() []byte
	// Load takes a state, which Check has found to be one, in place of what there is.
	Load(state []byte) error
}

// Config is what is saved, and the functions that load it.
type Config struct {
	Version  uint32 // of the protocol
	Control  Control
	Greeting Greeting
	Settings Settings
	Stays    func() error // why a channel's program can't be saved
	Serves   func() bool  // there is a program with a worker
	// Descriptors is how many descriptors are of memory that no program has any more, which can't
	// be saved.
	Descriptors func() int
	Objects     Objects
	Suspension  func() suspend.State
	// Copy writes the programs. Arrive begins to read them, and finds errors before anything is
	// done; take makes workers of them.
	Copy   func(io.Writer) error
	Arrive func(io.Reader) (take func() error, err error)
	File   File
	// Forget ends all that the device has of the guest that it served until now.
	Forget func()
	// Greeted is told that the state came with a driver that has greeted.
	Greeted func()
}

// VM saves and loads a VM whose queues are stopped, and whose workers have finished their work. It
// has no state of its own.
type VM struct{ config Config }

// Of returns the VM of that configuration.
func Of(c Config) *VM { return &VM{c} }

// Save writes the VM. Nothing ends: it may go on here.
func (v *VM) Save(w io.Writer) error {
	why, s, objects := v.Stays(), v.State(), v.config.Objects.State()
	if why != nil {
		return fmt.Errorf("%w: %w", ErrBusy, why)
	}
	s.Objects = uint32(len(objects))
	if _, err := w.Write(append(s.Encode(), EncodeObjects(objects)...)); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	switch s.Programs {
	case None:
		return nil
	case InFile:
		return v.config.File.Save(w)
	}
	buffered := bufio.NewWriterSize(w, streamBuffer)
	if err := v.config.Copy(buffered); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if v.config.Descriptors() > 0 { // a call has ended since that released the memory
		return fmt.Errorf("%w: %w", ErrBusy, errDescriptors)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// streamBuffer is how much of a stream is buffered here.
const streamBuffer = 1 << 20

// Stays says why the VM can't be saved, as far as is known without asking its workers.
func (v *VM) Stays() error {
	if err := v.config.Stays(); err != nil {
		return err
	}
	switch {
	case v.config.Descriptors() > 0:
		return errDescriptors
	case v.config.Control.Unanswered():
		return errors.New("a request of its driver isn't answered yet: try again")
	case v.config.Suspension() == suspend.Suspended && v.config.Serves():
		return errors.New("it is suspended: resume it first")
	}
	return nil
}

var errDescriptors = errors.New("programs in it hold descriptors of GPU memory of programs that " +
	"have ended, or have released it: end them first")

// State is what is saved, apart from the programs.
func (v *VM) State() *State {
	told := v.config.Settings.Told()
	s := New(State{
		Version: v.config.Version, Generation: v.config.Control.Generation(),
		Channels: told.Channels, ArenaBytes: told.ArenaBytes, Sequence: told.Sequence,
		Vouchers: v.config.Control.Vouchers(),
	})
	if v.config.Greeting.Greeted() {
		s.Greeted = 1
	}
	switch {
	case v.config.Serves():
		s.Programs = InStream
	case v.config.File.Has():
		s.Programs = InFile
	}
	return s
}

// Load goes on with a VM that was saved. If the beginning of a stream is wrong, nothing is changed.
func (v *VM) Load(r io.Reader) error {
	s, err := Read(r)
	if err != nil {
		return err
	}
	if err := v.suits(s); err != nil {
		return err
	}
	objects, err := s.ReadObjects(r, exports.MostState)
	if err == nil {
		err = exports.Check(objects)
	}
	if err != nil {
		return err
	}
	// Before there are workers, which may want the mover at once.
	vouchers := v.config.Control.Vouchers()
	v.config.Control.SetVouchers(s.Vouchers)
	if err := v.takeWhatFollows(s, objects, r); err != nil {
		v.config.Control.SetVouchers(vouchers)
		return err
	}
	v.config.Greeting.Expect(s.Greeted != 0)
	v.config.Control.GoOnAs(s.Generation)
	v.config.Settings.Follow(s.Sequence)
	if s.Greeted != 0 {
		v.config.Greeted()
	}
	return nil
}

// takeWhatFollows takes the programs that follow a state, in place of those here.
func (v *VM) takeWhatFollows(s *State, objects []byte, r io.Reader) error {
	switch s.Programs {
	case None:
		v.config.Forget()
		v.config.File.Unused()
		return v.config.Objects.Load(objects)
	case InFile:
		if err := v.config.File.Take(r); err != nil {
			return err
		}
		return v.config.Objects.Load(objects)
	}
	defer v.config.File.Unused()
	return v.takePrograms(objects, bufio.NewReaderSize(r, streamBuffer))
}

// takePrograms makes workers of a stream's programs, in place of those here.
func (v *VM) takePrograms(objects []byte, r io.Reader) error {
	take, err := v.config.Arrive(r)
	if err != nil {
		return err
	}
	v.config.Forget()
	err = v.config.Objects.Load(objects)
	if err == nil {
		err = take()
	}
	if err == nil {
		err = End(r)
	}
	if err != nil {
		v.config.Forget() // of the VM that doesn't come, too
	}
	return err
}

// suits says why this device can't take up a VM with that state.
func (v *VM) suits(s *State) error {
	switch {
	case v.config.Control.Runs():
		return fmt.Errorf("%w: this device serves a VM already", ErrState)
	case s.Programs == InStream && v.config.Suspension() != suspend.Running:
		return fmt.Errorf("%w: this device is suspended: resume it first", ErrState)
	}
	return s.Suits(v.State())
}
