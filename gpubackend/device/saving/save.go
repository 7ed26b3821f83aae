// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// leaving is a program that is being written, and its worker.
type leaving struct {
	*Program
	served Served
	ended  bool // meanwhile
}

// elsewhere is where programs' memory is that needn't be written; nil: nothing is there.
type elsewhere struct {
	ahead  Ahead   // at another device process
	origin *origin // in the states that the file had
	early  *early  // in the file, right before this state
	// there were programs when the suspend began
	programs bool
}

// save writes the VM, and ends its workers if the file is kept.
func (s *Saving) save(
	f io.Writer, is elsewhere, wrote func(bytes uint64), keep func() error,
) (written savedvm.Written, err error) {
	if err := s.Described(); err != nil {
		return written, err
	}
	written, list, err := s.writeAll(f, is, wrote)
	if err == nil && is.programs && len(list) == 0 && !s.dooms() {
		err = errAllEnded
	}
	if err != nil {
		return written, err
	}
	away := s.config.Known() != ""
	if away { // a program that isn't in the file would be lost
		err = cmp.Or(s.others(list), s.Described())
	}
	if err == nil {
		err = keep()
	}
	if err != nil {
		return written, err
	}
	s.mu.Lock()
	s.sum, s.away = written.Sum, away
	for _, x := range list {
		s.ending = append(s.ending, x.Program)
	}
	s.mu.Unlock()
	s.noted() // a process that takes over now ends those that haven't ended
	left := 0
	for _, x := range list {
		s.config.Leave(x.served, func() {
			s.add(x.Program)
			left++
		})
	}
	s.endAll(list)
	s.mu.Lock()
	s.ending = nil
	s.mu.Unlock()
	s.noted()
	if left == 0 && len(list) > 0 {
		return written, errAllEnded
	}
	return written, nil
}

// dooms says whether a program is going to be ended, since its work goes on.
func (s *Saving) dooms() bool {
	return slices.ContainsFunc(s.config.Serving(), func(x Served) bool {
		return s.config.Suspension.Doomed(x.Worker)
	})
}

// errAllEnded says that nothing is left that would be in the file.
var errAllEnded = errors.New("all programs ended meanwhile: nothing is suspended, and no program " +
	"needs the file")

// endAll ends the workers of programs, all at the same time: the GPU's driver may take long for
// each.
func (s *Saving) endAll(list []*leaving) {
	var ending sync.WaitGroup
	ending.Add(len(list))
	for _, x := range list {
		s.config.Run("the end of a worker", func() {
			defer ending.Done()
			x.served.Worker.End()
		})
	}
	ending.Wait()
}

// writeAll has the programs written to a file, which is begun anew without those that end
// meanwhile.
func (s *Saving) writeAll(f io.Writer, is elsewhere, wrote func(bytes uint64)) (
	written savedvm.Written, list []*leaving, err error,
) {
	for list = s.leaving(); ; {
		written, err = s.write(counted(f, wrote), list, is)
		if !errors.Is(err, suspend.ErrEnded) {
			return written, list, err
		}
		rest := slices.DeleteFunc(list, func(x *leaving) bool { return x.ended })
		switch len(rest) {
		case len(list):
			return written, nil, err
		case 0:
			return written, nil, errAllEnded
		}
		if list = rest; anew(f) != nil {
			return written, nil, err
		}
		for i, x := range list {
			x.number = i
		}
	}
}

// counting reports how much is written.
type counting struct {
	io.Writer
	wrote func(bytes uint64)
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.wrote(uint64(n))
	return n, err
}

// countingParts is one for what can write parts.
type countingParts struct {
	counting
	parts record.PartsWriter
}

func (c *countingParts) WriteParts(list [][]byte) error {
	if err := c.parts.WriteParts(list); err != nil {
		return err
	}
	for _, b := range list {
		c.wrote(uint64(len(b)))
	}
	return nil
}

// counted has wrote told how much is written.
func counted(to io.Writer, wrote func(bytes uint64)) io.Writer {
	c := counting{to, wrote}
	if parts, ok := to.(record.PartsWriter); ok {
		return &countingParts{c, parts}
	}
	return &c
}

// write makes the workers write their programs.
func (s *Saving) write(
	to io.Writer, list []*leaving, is elsewhere,
) (savedvm.Written, error) {
	var sources []savedvm.Source
	for _, x := range list {
		p := savedvm.Program{Channel: x.Channel, PID: x.PID, Name: x.Name, Bytes: x.bytes,
			Had: s.config.Had(x.served.Worker)}
		had, rest := originProgram{}, savedvm.Nowhere
		if p.Base, had = is.origin.of(x.served.Worker); p.Base != nil {
			rest = savedvm.Filed
		}
		if is.ahead != nil && is.ahead.Has(x.served.Worker) {
			p.Ahead, rest = is.ahead.Number(), savedvm.Ahead
		}
		sectors := is.early.of(x.served.Worker)
		if len(sectors) > 0 {
			rest = savedvm.Early
		}
		sources = append(sources, savedvm.Source{Program: p,
			BaseBytes: had.bytes, BaseParts: had.parts, Sectors: sectors,
			Save: func(to *lanes.Far) error {
				err := x.served.Worker.Save(to, x.bytes, rest)
				x.ended = errors.Is(err, suspend.ErrEnded)
				return err
			}})
	}
	h := s.header()
	h.Saved = time.Now()
	vm := savedvm.VM{Header: h, Descriptors: s.open(h)}
	if is.origin != nil {
		vm.Runs = is.origin.runs
	}
	return savedvm.Write(to, vm, sources)
}

// open is what open descriptors stand for, if the record is the only one that will know.
func (s *Saving) open(h record.Header) []byte {
	if h.VM == "" || s.config.Open == nil {
		return nil
	}
	return s.config.Open()
}

// Copy writes the VM to a stream. Nothing ends: afterwards the programs go on, here or in the
// device process that reads the stream.
func (s *Saving) Copy(to io.Writer) error {
	return s.config.Suspension.Copy(func() error {
		list := s.leaving()
		if err := s.others(list); err != nil {
			return err
		}
		ahead := s.went()
		with := uint64(0)
		defer func() { ahead.Over(with) }()
		_, err := s.write(counted(to, func(bytes uint64) { with += bytes }), list,
			elsewhere{ahead: ahead})
		return err
	})
}

// nothing is an Ahead of which nothing went.
type nothing struct{}

func (nothing) Number() uint64 { return 0 }
func (nothing) Has(any) bool   { return false }
func (nothing) Over(uint64)    {}

// went returns what went ahead.
func (s *Saving) went() Ahead {
	if s.config.Went == nil {
		return nothing{}
	}
	return s.config.Went()
}

// others returns an error if a program that isn't being written has a worker.
func (s *Saving) others(list []*leaving) error {
	for _, x := range s.config.Serving() {
		if s.config.Suspension.Doomed(x.Worker) {
			continue
		}
		if !slices.ContainsFunc(list, func(y *leaving) bool { return y.Channel == x.Channel }) {
			return fmt.Errorf("%s (pid %d) begins just now to use the GPU", x.Name, x.PID)
		}
	}
	return nil
}

// leaving are the programs whose workers were drained. One that has started since has nothing to
// save.
func (s *Saving) leaving() (list []*leaving) {
	if s.config.Hold != nil {
		s.config.Hold()
	}
	for _, x := range s.config.Serving() {
		bytes, ok := s.config.Suspension.Drained(x.Worker)
		if !ok {
			continue
		}
		list = append(list, &leaving{served: x, Program: &Program{
			Channel: x.Channel, PID: x.PID, Name: x.Name, number: len(list), bytes: bytes,
		}})
	}
	return list
}
