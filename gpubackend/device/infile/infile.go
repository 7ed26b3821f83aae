// SPDX-License-Identifier: Apache-2.0

// Package infile lets a VM that was suspended to a file go on from it in another device process.
// That is the next one behind the same front end, which learns of the file from what the previous
// one has left (package remains), or one where the front end has moved or restored the VM, which
// learns of it from the VM's state (package savedstate). The file is known by its sum. With
// Config.From the VM goes on as soon as its queues run.
//
// Of a VM whose device was away there are only the file and the driver: it is recognised by the key
// that both have, and its queues begin anew, with what they had before (Back).
//
// # Who owns what
//
// Package saving knows which programs are in the file, and package channels where their queues
// stand. A VM here owns nothing but the file that it may go on from, whether it has, and a lock,
// under which it calls nobody.
//
// # Who may lie
//
// Who brings a VM's state. What it says of a file is bounded, has a checksum, and is compared with
// this VM; the file itself is checked when it is read (package savedvm).
package infile

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Programs are those of a VM that are in a file: saving.Saving.
type Programs interface {
	InFile() *saving.InFile // nil: none is
	TakeUp(*saving.InFile)
	Has(channel int) bool
	Load(f io.ReaderAt, tell func(suspend.Progress)) (suspend.Moved, error)
}

// Channels are those of a VM: channels.Filed.
type Channels interface {
	Len() int
	Standing(channel int) (base uint16, held []uint16)
	Comes(channel int, base uint16, held []uint16)
	Run() bool
	// Offered says whether the driver has made something available that nobody has taken.
	Offered(channel int) bool
	// LeftBy takes what the worker of a program in a file has noted of its queue.
	LeftBy(channel int, state *handover.State)
}

// Suspension is the VM's: suspend.Suspension.
type Suspension interface {
	// TakeFile makes it suspended to a file.
	TakeFile() error
	Status() suspend.Status
}

// Config is what a VM consists of.
type Config struct {
	Programs   Programs
	Channels   Channels
	Suspension Suspension
	From       *saving.File // from which it goes on by itself, if its programs are in it; nil: none
	// Used says whether a program has a worker, or is about to; Reclaim gives back what a channel
	// without one was offered.
	Used    func() bool
	Reclaim func(channel int)
	// Describe takes what open descriptors stand for, of a VM that is back: those of programs that
	// aren't in the file any more stand for nothing, but their numbers stay taken.
	Describe func(descriptors []byte) error
	Goes     func() // the driver was told that the device is going to be away
	Forget   func() // ends all that the device has of the guest that it served until now
	Empty    func() // ends the warm workers
	// Run runs a part on a goroutine of its own.
	Run func(part string, f func())
	Log *logrus.Entry
}

// VM is a VM that may be in a file.
type VM struct {
	config Config
	over   atomic.Bool // the VM went on from Config.From, or never will

	mu       sync.Mutex
	expected *saving.File // of a VM that was away; nil: none; guarded by mu
}

// New returns the VM of that configuration.
func New(c Config) *VM { return &VM{config: c} }

// Has says whether programs are in a file.
func (v *VM) Has() bool { return v.config.Programs.InFile() != nil }

// Known is what the next process must know of the file; nil: no program is in one.
func (v *VM) Known() []byte {
	if f := v.config.Programs.InFile(); f != nil {
		return f.Encode()
	}
	return nil
}

// TakeOver makes the VM one that is in a file, if the previous process knew of one. A worker whose
// program is in the file, since that process ended before the worker did, must end: ended is told
// of it.
func (v *VM) TakeOver(known []byte, left *takeover.Left, ended func(takeover.Worker)) {
	if known == nil {
		return
	}
	f, err := saving.DecodeInFile(known, v.config.Channels.Len())
	if err == nil {
		err = v.config.Suspension.TakeFile()
	}
	if err != nil {
		v.config.Log.WithError(err).Error("programs that are in a file are lost")
		return
	}
	v.config.Programs.TakeUp(f)
	if f.Away {
		v.config.Goes()
	}
	workers := left.Workers
	left.Workers = nil
	for _, x := range workers {
		if !v.config.Programs.Has(x.Channel) {
			left.Workers = append(left.Workers, x)
			continue
		}
		_ = x.Conn.Close()
		v.config.Channels.LeftBy(x.Channel, x.State)
		ended(x)
		left.Rest = append(left.Rest, x.Proc)
	}
}

// Save implements savedstate.File.
func (v *VM) Save(w io.Writer) error {
	f := v.config.Programs.InFile()
	if f == nil { // it has just been resumed
		return fmt.Errorf("%w: it is being resumed", savedstate.ErrBusy)
	}
	for i := range f.Programs {
		p := &f.Programs[i]
		p.Base, p.Held = v.config.Channels.Standing(p.Channel)
	}
	if _, err := w.Write(savedstate.EncodeFile(f.Encode())); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// Take implements savedstate.File.
func (v *VM) Take(r io.Reader) error {
	b, err := savedstate.ReadFile(r, saving.MaxInFile)
	if err != nil {
		return err
	}
	f, err := saving.DecodeInFile(b, v.config.Channels.Len())
	if err != nil {
		return err
	}
	if from := v.config.From; from != nil && !from.Has(f.Sum) && !v.over.Load() {
		return fmt.Errorf("%w: the VM was suspended to another file than that of --from",
			savedstate.ErrState)
	}
	v.config.Forget()
	v.config.Empty()
	if err := v.config.Suspension.TakeFile(); err != nil {
		return err
	}
	for _, p := range f.Programs {
		v.config.Channels.Comes(p.Channel, p.Base, p.Held)
	}
	v.config.Programs.TakeUp(f)
	return nil
}

// Started is told that a queue runs. If the VM's programs are in the file of Config.From, and their
// queues run, the VM goes on from it, once.
func (v *VM) Started() {
	from := v.config.From
	if from == nil || !v.config.Suspension.Status().Saved || !v.config.Channels.Run() {
		return
	}
	if v.over.Swap(true) {
		return
	}
	v.goOn(from)
}

// goOn lets the VM go on from a file.
func (v *VM) goOn(from *saving.File) {
	v.config.Run("going on from a file", func() {
		if _, err := v.config.Programs.Load(from.From, func(suspend.Progress) {}); err != nil {
			v.config.Log.WithError(err).Error(
				"the VM stays suspended: paracuda resume --from FILE tries once more")
		}
	})
}

// Unused says that the VM isn't in the file of Config.From, unless it went on from that.
func (v *VM) Unused() {
	from := v.config.From
	if from == nil || from.VM != "" { // a VM that was away says that it is the file's (Back)
		return
	}
	if !v.config.Suspension.Status().Saved && !v.over.Swap(true) {
		v.config.Log.Warn("the VM doesn't go on from the file of --from: its programs aren't in it")
	}
}
