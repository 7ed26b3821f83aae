// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

var errAnother = errors.New("this isn't the file to which the VM was suspended last")

// begun is a program that was in the file, and its worker; nil: none could begin.
type begun struct {
	*Program
	worker Worker
}

// load makes workers from a file, and returns how much device memory they have.
func (s *Saving) load(f io.ReaderAt) (bytes uint64, err error) {
	id, _ := identify(f)
	file, from, err := s.check(f)
	if err != nil {
		return 0, err
	}
	list, err := s.begin(from)
	for err != nil {
		end(list)
		if !slices.ContainsFunc(list, func(x *begun) bool { return !s.is(x.Program) }) {
			return 0, s.withRoom(s.still(from), err)
		}
		list, err = s.begin(from) // without the programs that have ended meanwhile
	}
	s.wentOn(f, id, file, from, list)
	for _, x := range list {
		bytes += x.bytes
		s.resumed(x.Program)
	}
	s.noted() // before any goes on, since then the file is out of date
	return bytes, nil
}

// end ends the workers that have begun.
func end(list []*begun) {
	for _, x := range list {
		if x.worker != nil {
			x.worker.End()
		}
	}
}

// check says why a file can't be taken up, before anything is done, and else from which of its
// states the programs go on.
func (s *Saving) check(f io.ReaderAt) (*savedvm.File, *savedvm.State, error) {
	file, err := checkFile(f, s.config.GPU, s.config.Build)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if from := file.State(s.sum); from != nil {
		return file, from, from.Header.Suits(s.header())
	}
	return nil, nil, errors.Join(errAnother, file.Behind)
}

// begin starts a worker for each program that is still there, one after the other, until one can't
// begin, and has all join.
func (s *Saving) begin(from *savedvm.State) (list []*begun, err error) {
	err = from.Each(func(number int, in savedvm.Program) (io.WriteCloser, func() error) {
		p := s.find(number, in)
		if p == nil {
			return nil, nil
		}
		x := &begun{Program: p}
		list = append(list, x)
		return s.start(x, func(from Source) (Worker, error) {
			from.Filed = true
			return s.config.Begin(p, from, func() bool { return s.is(p) })
		})
	})
	if err == nil {
		err = s.join(list)
	}
	return list, err
}

// join has each worker take what others share with it, one after the other.
func (s *Saving) join(list []*begun) error {
	for _, x := range list {
		if err := x.worker.Join(); err != nil {
			return fmt.Errorf("%v: %w", x.Program, err)
		}
	}
	for _, x := range list {
		if s.config.GoesOn != nil {
			s.config.GoesOn(x.worker)
		}
	}
	return nil
}

// still are the programs of a state that are still there.
func (s *Saving) still(from *savedvm.State) (list []savedvm.Program) {
	for number, p := range from.Programs {
		if s.find(number, p) != nil {
			list = append(list, p)
		}
	}
	return list
}

// start starts the worker of a program in a record. The worker reads what is written to the pipe;
// end says whether it has the program.
func (s *Saving) start(
	x *begun, begin func(Source) (Worker, error),
) (to io.WriteCloser, end func() error) {
	here, there, err := lanes.Pipe()
	if err != nil {
		return nil, func() error { return err }
	}
	ended := make(chan error, 1)
	s.config.Run("a worker from a record", func() {
		err := errors.New("an internal fault: see the log of the device process")
		defer func() {
			there.Close() // the writer learns that nobody reads
			ended <- err
		}()
		x.worker, err = begin(Source{From: there, Bytes: x.bytes})
	})
	return here, func() error { return <-ended }
}

// resumed notes that a program isn't in the file any more: it has a worker.
func (s *Saving) resumed(p *Program) {
	s.mu.Lock()
	still := s.saved[p.Channel] == p
	if still {
		delete(s.saved, p.Channel)
	}
	s.mu.Unlock()
	if still {
		s.config.Resumed(p.Channel)
	}
}
