// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A VM that is suspended to a file has no workers. Its channels keep their queues as the workers
// left them, with what these held, until others go on with them: they are made from the file. Only
// the file to which the VM was suspended last will do: the guest's memory has gone on from others.

// savedProgram is a program of which all is in a file. It is a channel's.
type savedProgram struct {
	program
	number int    // among those in the file
	bytes  uint64 // of device memory
	from   *os.File
}

var (
	errStuck   = errors.New("a worker that was killed does not end")
	errAnother = errors.New("this isn't the file to which the VM was suspended last")
)

// suspendTo suspends the VM to a file. keep is called when all is written, and says whether the
// file is kept: after that, and not before, the workers end.
func (d *Device) suspendTo(
	f io.Writer, keep func() error, tell func(suspend.Progress),
) (suspend.Moved, error) {
	return d.suspension.Save(func() error {
		sources := d.sources()
		h := record.Header{GPU: d.config.GPU, Version: d.config.Build, Saved: time.Now()}
		sum, err := savedvm.Write(f, h, sources)
		if err != nil {
			return err
		}
		if err := keep(); err != nil {
			return err
		}
		d.leaveTo(sources, sum)
		return nil
	}, tell)
}

// sources are the workers that serve a program.
func (d *Device) sources() (list []savedvm.Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		w := c.worker
		if w == nil {
			continue
		}
		bytes, ok := d.suspension.Drained(w)
		if !ok {
			continue
		}
		c.filed = &savedProgram{program: w.program, number: len(list), bytes: bytes}
		list = append(list, savedvm.Source{
			Program: savedvm.Program{Channel: c.index, PID: w.pid, Name: w.comm},
			Most:    bytes,
			Save:    func(to *os.File) error { return w.save(to, bytes) },
		})
	}
	return list
}

// save has the worker write all that its program has.
func (w *workerProcess) save(to *os.File, bytes uint64) error {
	m := handover.Message{Kind: handover.KindSave, Files: handover.Files{Object: true}}
	limit := w.limits.Answer + time.Duration(bytes/slowest)*time.Second
	return w.conn.Request(&m, []int{int(to.Fd())}, handover.KindSaved, limit)
}

// leaveTo ends the workers whose programs are in a file.
func (d *Device) leaveTo(list []savedvm.Source, sum uint32) {
	var ending []*workerProcess
	d.mu.Lock()
	d.savedSum = sum
	for i := range list {
		c := d.channels[list[i].Channel]
		if w := c.worker; w != nil && c.filed != nil {
			c.saved = c.filed
			w.closing.Store(true)
			ending = append(ending, w)
		}
		c.filed = nil
	}
	d.mu.Unlock()
	for _, w := range ending {
		w.kill()
		w.awaitEnd()
	}
}

// forgetSaved is told that a channel's driver is gone, or begins anew.
func (d *Device) forgetSaved(c *channel) {
	if c.saved == nil {
		return
	}
	if c.saved = nil; !d.channels.anySaved() {
		d.suspension.Lost()
	}
}

// resumeFrom makes workers from a file.
func (d *Device) resumeFrom(f io.ReaderAt, tell func(suspend.Progress)) (suspend.Moved, error) {
	all := func() io.Reader {
		return bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 1<<20)
	}
	return d.suspension.Load(func() (uint64, error) {
		if err := d.checkFile(all()); err != nil {
			return 0, err
		}
		return d.load(all())
	}, tell)
}

// checkFile says why a file can't be taken up, before anything is done.
func (d *Device) checkFile(f io.Reader) error {
	summary, err := savedvm.Check(f)
	if err != nil {
		return err
	}
	here := record.Header{GPU: d.config.GPU, Version: d.config.Build}
	if err := summary.Header.Suits(here); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if summary.Sum != d.savedSum {
		return errAnother
	}
	return nil
}

// load starts a worker for each program that is still there: for all of them, or none.
func (d *Device) load(f io.Reader) (bytes uint64, err error) {
	var started []*channel
	err = savedvm.Read(f, func(number int, p savedvm.Program) (io.WriteCloser, func() error) {
		d.mu.Lock()
		c := d.channels.savedAs(number, p)
		d.mu.Unlock()
		if c == nil {
			return nil, nil
		}
		started = append(started, c)
		bytes += c.saved.bytes
		return d.startSaved(c)
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		for _, c := range started {
			if c.saved != nil && c.worker != nil {
				c.saved = nil
			}
		}
		return bytes, nil
	}
	for _, c := range started {
		if w := c.worker; w != nil {
			w.closing.Store(true)
			w.kill()
			d.mu.Unlock()
			w.awaitEnd()
			d.mu.Lock()
		}
	}
	return 0, err
}

// startSaved starts a worker of a program in the file. It reads what is written to the pipe, and
// end says whether it serves the program.
func (d *Device) startSaved(c *channel) (io.WriteCloser, func() error) {
	near, far, err := savedvm.Pipe()
	if err != nil {
		return nil, func() error { return err }
	}
	d.mu.Lock()
	s := c.saved
	s.from = near
	d.mu.Unlock()
	ended := make(chan error, 1)
	d.run("a worker from a file", func() {
		err := errors.New("a fault: the log has it")
		defer func() {
			near.Close() // whoever writes learns that nobody reads
			ended <- err
		}()
		d.starts.Take()
		err = d.begin(c, s.program, false, nil, func() error {
			switch {
			case c.saved != s || !c.queue.Runs():
				return errNotRunning
			case c.worker != nil && c.worker.stuck:
				return errStuck
			case c.worker != nil:
				return errBusy
			}
			return nil
		})
	})
	return far, func() error { return <-ended }
}
