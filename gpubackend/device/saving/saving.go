// SPDX-License-Identifier: Apache-2.0

// Package saving writes the programs of a VM to a file, and makes them again from it; or it sends
// them to another device process, through a stream.
//
// A VM that is suspended to a file has no workers. Its channels keep their queues as the workers
// left them, with what these held, until others go on with them: they are made from the file. Only
// the file to which the VM was suspended last is accepted: the guest's memory has changed since
// older ones.
//
// # Who owns what
//
// A Saving knows which programs are in the file, by their channels; all else of a channel is the
// device's. It has a lock of its own, under which it calls nobody: the device may hold its lock
// when it calls Saved, Has, InFile and Forget. What Config has is called without that lock.
//
// Save writes the programs to a file:
//
//  1. If that is wanted, device memory is written while the programs run (early.go): all, or what
//     the file lacks from which they went on.
//  2. The programs stop. Each worker writes its program to a socket, and package savedvm writes
//     that to the file: behind what was there, if the programs went on from this file (origin.go).
//     If a program ends meanwhile, the file is begun anew. Device memory stays where it is.
//  3. When the file is kept, the workers end, and their programs are in the file (Leave).
//
// Load reads the file once to see that it is whole, and again to give each program that is still
// there its record (Begin). All begin, or none; if one ends meanwhile, the others begin once more.
// When all have begun, each takes what others share with it (Join), also where two share with each
// other.
//
// Another device process that has taken over the VM can go on from the file (TakeUp): the next one
// behind the same front end, or the one to which the VM was moved. What else it must know is
// InFile.
//
// A VM that is saved or migrated by its front end goes through a stream, while its queues are
// stopped. It can be read only once, and no process could keep all of it:
//
//	Copy    each worker writes its program, whose device memory stays where it is, and goes on
//	Arrive  whose it is, and of which programs, is read and compared with what there is here
//	Take    each program's worker is made while its record is read (Config.Arrive), for queues that
//	        will run: all are made, and join, or none
//
// # Who may lie
//
// Who brings the file: package savedvm checks it, and its sum must be that of the VM's own.
// Workers, in what they write (package savedvm) and by not answering: Begin, Arrive and Worker
// bound that.
//
// Who brings the stream. Nothing damaged gets to a worker (package record); workers that were made
// of what came before are ended.
//
// # Files
//
// saving.go (which programs are saved), movable.go (which could be), save.go (to a file or a
// stream), file.go (what can be written anew), early.go (memory that is written before the programs
// stop), load.go (from a file), origin.go (what the file has that they went on from), infile.go
// (what other processes need to know of a file), arrive.go (from a stream), room.go (what they need
// of the GPUs' memory).
package saving

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Worker is the worker of a program. It is compared by identity.
type Worker interface {
	suspend.Worker
	// Save makes it write all that its program has to a stream (package lanes), except for device
	// memory that rest says is elsewhere. bytes is how much device memory the program has. The
	// error wraps suspend.ErrEnded if the worker has ended, or is about to.
	Save(to *lanes.Far, bytes uint64, rest savedvm.Rest) error
	// Join makes it take what the programs of other workers share with its own. All have begun from
	// a record.
	Join() error
	// Movable says why its program couldn't be saved, apart from what is under way; "": for no
	// reason that is known.
	Movable() string
	// End ends it, with none in its place, and waits for its end for as long as a worker may take.
	End()
}

// Served is a program and its worker.
type Served struct {
	Channel int
	PID     int32
	Name    string
	Worker  Worker
}

// Source is where a worker reads its program's state.
type Source struct {
	From  *lanes.Far // its record
	Bytes uint64     // of device memory
	Filed bool       // the record is in a file
	// Image is device memory that came ahead; nil: none did. It is closed when the worker has it.
	Image *os.File
}

// Ahead is what went ahead of a VM that stands still: outgoing.Went.
type Ahead interface {
	Number() uint64 // of the session; 0: nothing went
	Has(worker any) bool
	// Over says that it isn't needed any more, and how many bytes went with the VM.
	Over(with uint64)
}

// Suspension is what moves device memory out: suspend.Suspension.
type Suspension interface {
	Save(kill bool, save func(wrote func(bytes uint64)) (unchanged uint64, err error),
		tell func(suspend.Progress)) (suspend.Moved, error)
	Load(load func() (uint64, error), tell func(suspend.Progress)) (suspend.Moved, error)
	Copy(save func() error) error
	Drained(suspend.Worker) (bytes uint64, ok bool)
	Doomed(suspend.Worker) bool // it is busy, and will be killed
	Lost()
	State() suspend.State
}

// Config is what a Saving needs of the VM.
type Config struct {
	GPU      string // of the VM, and
	Build    string // the program's version: files of others are refused
	Channels int    // that the VM has
	// Had is what a worker has of each GPU's memory, by the ledger's ids, and Bound what the VM may
	// have of each; 0: all.
	Had        func(Worker) map[uint64]uint64
	Bound      func() uint64
	Suspension Suspension
	// Passes copy memory while programs run; nil: nothing does.
	Passes *passes.Passes
	// Serving are the workers that serve a program.
	Serving func() []Served
	// Hold is called when all programs stand still, before they are written: what they import from
	// now on is for the workers that go on. nil: they import nothing.
	Hold func()
	// Leave is called for a worker that is to end. If it still serves its channel, saved is called
	// before anybody can learn that it doesn't.
	Leave func(s Served, saved func())
	// Begin starts a worker for a saved program, in its channel, and returns when it serves the
	// program, or can't. It doesn't begin unless still is true when it holds the channel.
	Begin func(p *Program, from Source, still func() bool) (Worker, error)
	// Arrive starts a worker for a program that comes through a stream, in its channel, whose queue
	// doesn't run yet, and returns when it has the program, or can't.
	Arrive func(p *Program, from Source) (Worker, error)
	// Went is called when all programs stand still to be copied, and returns what of their memory
	// went ahead; nil: nothing ever does. Image is what came ahead of a program.
	Went  func() Ahead
	Image func(session uint64, channel int) (*os.File, error)
	// Known is the key by which the VM will be recognised when its device was away; "": it doesn't
	// go.
	Known func() string
	// Descriptors is how many descriptors in the VM are of memory that no program has any more,
	// which can't be saved; nil: there never are any.
	Descriptors func() int
	// Open is what open descriptors stand for, for a VM whose device is going to be away; nil:
	// there never are any.
	Open func() []byte
	// GoesOn is told of each worker that has begun from a record, when all have joined; nil: nobody
	// wants to know.
	GoesOn func(Worker)
	// Arrived is told of the channel of each worker that Arrive has made, after GoesOn of all: the
	// worker goes on with its VM, and nobody says when; nil: nobody wants to know.
	Arrived func(channel int)
	// Resumed is told that a channel's program isn't saved any more, and begins again.
	Resumed func(channel int)
	// Noted is called when InFile has changed; nil: nobody wants to know. The lock of the channels
	// may be held.
	Noted func()
	// Run runs a part of this package on a goroutine.
	Run func(part string, f func())
}

// Program is a program in the file.
type Program struct {
	Channel int
	PID     int32
	Name    string
	Anew    bool // its driver has made available again what its worker held: its device was away

	number int    // among those in the file
	bytes  uint64 // of device memory
}

func (p *Program) String() string { return fmt.Sprintf("%s (pid %d)", p.Name, p.PID) }

// Saving has the programs of a VM that are in a file.
type Saving struct {
	config Config

	mu    sync.Mutex
	sum   uint32           // of the file, 0 before there was one; guarded by mu, as is what follows
	away  bool             // the VM's device is going to be away
	saved map[int]*Program // by channel
	// programs in the file that was just kept, whose workers are to end
	ending []*Program
	origin *origin // what the programs went on from; nil: nothing, or nobody knows
}

// New returns the Saving of a VM of which nothing is saved.
func New(c Config) *Saving { return &Saving{config: c, saved: map[int]*Program{}} }

// Saved is a channel's program, nil if it has none that is saved.
func (s *Saving) Saved(channel int) *Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved[channel]
}

// Has says whether a channel's program is saved.
func (s *Saving) Has(channel int) bool { return s.Saved(channel) != nil }

// Forget is told that a channel's driver is gone, or begins anew.
func (s *Saving) Forget(channel int) {
	s.mu.Lock()
	_, had := s.saved[channel]
	delete(s.saved, channel)
	none := len(s.saved) == 0
	s.mu.Unlock()
	if had {
		s.noted()
	}
	if had && none {
		s.config.Suspension.Lost()
	}
}

// add notes that a program is saved.
func (s *Saving) add(p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[p.Channel] = p
}

// is says whether a program is still saved.
func (s *Saving) is(p *Program) bool { return s.Saved(p.Channel) == p }

// find is a program in the file, nil if it is gone.
func (s *Saving) find(number int, in savedvm.Program) *Program {
	if p := s.Saved(in.Channel); p != nil && p.number == number {
		return p
	}
	return nil
}

// header is that of the VM's records.
func (s *Saving) header() record.Header {
	return record.Header{GPU: s.config.GPU, Version: s.config.Build, VM: s.config.Known()}
}

// Save suspends the VM to a file. keep is called when all is written, and says whether the file is
// kept: after that, and not before, the workers end. A file without content is written from its
// beginning. One with content must be the one that the programs went on from: what has changed is
// written behind that, and taken away again if it isn't kept. The error wraps record.ErrGrown if
// that is too much by now, so that another file is to take its place. With kill, programs whose
// work goes on are ended, too, and aren't in the file.
//
// Unless awaited is nil, device memory is written while the programs run, for as long as awaited
// returns nil, and they stop when most of it is there. awaited is called after tell.
func (s *Saving) Save(
	f io.Writer, kill bool, awaited, keep func() error, tell func(suspend.Progress),
) (m suspend.Moved, err error) {
	file, ok := f.(*os.File)
	if !ok {
		return s.config.Suspension.Save(kill, func(wrote func(uint64)) (uint64, error) {
			written, err := s.save(f, elsewhere{}, wrote, keep)
			return written.Same, err
		}, tell)
	}
	programs := len(s.config.Serving()) > 0
	if awaited != nil {
		e, err := s.writeEarly(file, awaited, tell)
		if err != nil {
			return m, err
		}
		if e != nil {
			return s.saveBehind(e, kill, programs, keep, tell)
		}
	}
	return s.config.Suspension.Save(kill, func(wrote func(uint64)) (uint64, error) {
		to, b, err := s.behind(file)
		if err != nil {
			return 0, err
		}
		written, err := s.save(to, elsewhere{origin: b, programs: programs}, wrote, keep)
		if err != nil && b != nil {
			err = errors.Join(err, s.takeBack(to, b))
		}
		return written.Same, err
	}, tell)
}

// saveBehind is Save for what has changed since memory was written early.
func (s *Saving) saveBehind(
	e *early, kill, programs bool, keep func() error, tell func(suspend.Progress),
) (suspend.Moved, error) {
	defer e.copies.Close()
	to := &rewritable{File: e.file, start: e.area.End(), at: e.area.End()}
	is := elsewhere{origin: e.origin, early: e, programs: programs}
	kept, ahead := false, uint64(0)
	m, err := s.config.Suspension.Save(kill, func(wrote func(uint64)) (uint64, error) {
		written, err := s.save(to, is, wrote, func() error {
			err := keep()
			kept = err == nil
			return err
		})
		ahead = written.Area
		return written.Same, err
	}, tell)
	switch {
	case err != nil && !kept:
		to.start = e.area.Start
		return m, errors.Join(err, s.takeBack(to, e.origin))
	case err != nil:
		return m, err
	}
	m.Early, m.Ran = ahead, e.took
	return m, nil
}

// Load resumes the VM with workers that are made from a file.
func (s *Saving) Load(f io.ReaderAt, tell func(suspend.Progress)) (suspend.Moved, error) {
	return s.config.Suspension.Load(func() (uint64, error) { return s.load(f) }, tell)
}
