// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"io"
	"time"

	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// fakeWorker is a worker whose program is a text.
type fakeWorker struct {
	text   string
	fails  error
	ended  bool
	rest   savedvm.Rest // what it didn't write
	filed  bool         // it went on from a record in a file
	memory string       // what it got of device memory
	image  string       // what came ahead of it
	had    map[uint64]uint64
	ending func()       // called when it ends; nil: nothing is
	early  *earlyMemory // nil: its memory is the text
	stays  string       // why it can't be saved
	busy   bool         // its work goes on
	join   func() error // nil: it may
}

func (w *fakeWorker) Drain(uint64, time.Duration, bool) (uint64, error) {
	if w.busy {
		return 0, suspend.ErrBusy
	}
	if w.early != nil {
		return uint64(len(w.early.Sectors())) * sectorsum.Bytes, nil
	}
	return memory, nil
}
func (w *fakeWorker) MoveOut(uint64, bool) (c suspend.Carried, _ error) { return c, nil }
func (w *fakeWorker) Forget()                                           {}
func (w *fakeWorker) MoveBack(uint64) error                             { return nil }
func (w *fakeWorker) MoveIn(uint64) error                               { return nil }
func (w *fakeWorker) Movable() string                                   { return w.stays }
func (w *fakeWorker) Ended() bool                                       { return w.ended }
func (w *fakeWorker) String() string                                    { return w.text }

func (w *fakeWorker) EndBusy() { w.End() }

func (w *fakeWorker) Join() error {
	if w.join == nil {
		return nil
	}
	return w.join()
}

func (w *fakeWorker) End() {
	if w.ended = true; w.ending != nil {
		w.ending()
	}
}

// memory is the device memory of each program.
const memory = 4096

// Save writes the text as each section. If rest is savedvm.Filed, the text's first byte is in the
// file already, and memory is written without it.
func (w *fakeWorker) Save(to *lanes.Far, bytes uint64, rest savedvm.Rest) error {
	if w.fails != nil {
		return w.fails
	}
	w.rest = rest
	stream := to.Open()
	defer stream.Close()
	out, err := record.NewWriter(stream, record.Header{})
	if err != nil {
		return err
	}
	for _, name := range []string{savedvm.StateName, savedvm.ObjectsName, savedvm.JournalName,
		savedvm.LayoutName, savedvm.SameName, savedvm.MemoryName} {
		text := w.text
		switch {
		case w.early != nil && name == savedvm.SameName:
			text = w.early.same(rest)
		case w.early != nil && name == savedvm.MemoryName:
			text = w.early.own(rest)
		case name == savedvm.SameName && rest == savedvm.Filed:
			runs := []savedvm.SameRun{{Same: 1, Own: uint64(len(text) - 1)}}
			text = string(savedvm.EncodeRuns(runs))
		case name == savedvm.SameName:
			text = ""
		case name == savedvm.MemoryName && rest == savedvm.Filed:
			text = text[1:]
		}
		s := record.Section{Program: 1, Name: name, Bytes: uint64(len(text))}
		if err := out.Begin(s); err != nil {
			return err
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return out.End()
}

// read reads what another worker wrote.
func (w *fakeWorker) read(from *lanes.Far) error {
	stream := from.Open()
	defer stream.Close()
	in, err := record.NewReader(stream)
	if err != nil {
		return err
	}
	b, err := savedvm.ReadAll(in, savedvm.StateName, memory)
	if err != nil {
		return err
	}
	w.text = string(b)
	for {
		switch section, err := in.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case section.Name == savedvm.MemoryName:
			if b, err = io.ReadAll(in); err != nil {
				return err
			}
			w.memory = string(b)
		}
	}
}
