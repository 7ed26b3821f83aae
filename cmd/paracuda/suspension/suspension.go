// SPDX-License-Identifier: Apache-2.0

// Package suspension has the commands that suspend and resume a VM: in the host's memory, or to a
// file and from it. The device process does it; these read command lines, make the file and open
// it, and show its progress.
package suspension

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/show"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/internal/plain"
)

const suspendText = `Stops the programs of a running VM that use the GPU, and moves its device
memory out to the host's memory; the GPU has that memory back. The programs notice nothing but
time. SOCKET is the device's control socket. What can't be moved stays, and the answer says how
much that is. Work that was begun ends first: where that takes longer than the policy stop-grace,
or the host has too little memory (suspend-memory), nothing is changed. With --kill, programs whose
work takes longer lose the GPU instead, with all that they have on it, and are named. An interrupted
command doesn't stop what it has begun. With the policy suspend-keep the host's copy stays when the
VM is resumed, and the next suspend copies only what has changed.

With --to, all that the programs have on the GPU goes to FILE, and their workers end. That doesn't
work for every program: what is in the way is said, and then nothing is changed. A FILE that is
there already must be the one from which the VM was resumed last: what has changed since is added to
it.

Device memory is written to FILE while the programs run: all of it that isn't there, then what has
changed meanwhile, until little does, or the programs change it faster than it is written. Then they
stop, and the rest is written. With --stop-first they stop before anything is written, which takes
less time in all.`

const resumeText = `Moves the device memory of a suspended VM in again, and has its programs go
on. SOCKET is the device's control socket. Where the GPU has too little memory now, nothing is
changed, and nothing is lost: the VM stays suspended.

With --from, workers are made from FILE, to which the VM was suspended last, by this device process
or by another. FILE stays, and is of no use any more, except to a snapshot that QEMU took of the VM
meanwhile.`

// Suspend is `paracuda suspend`.
func Suspend() *cobra.Command {
	c, path := changeCommand("suspend", "move a VM's device memory out, to the host's memory",
		suspendText, "to", "write all that the programs have on the GPU to `FILE`")
	stopFirst := c.Flags().Bool("stop-first", false,
		"with --to: stop the programs before anything is written")
	kill := c.Flags().Bool("kill", false,
		"end the programs whose work goes on for longer than stop-grace")
	c.Use = "suspend [--to FILE [--stop-first]] [--kill] SOCKET"
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *path == "" {
			return change("suspend", args[0], admin.Request{Suspend: true, Kill: *kill}, terminal())
		}
		return To(args[0], *path, Options{StopFirst: *stopFirst, Kill: *kill})
	}
	return c
}

// Resume is `paracuda resume`.
func Resume() *cobra.Command {
	c, path := changeCommand("resume", "move a suspended VM's device memory in again", resumeText,
		"from", "make the programs' workers from `FILE`, to which the VM was suspended")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *path == "" {
			return change("resume", args[0], admin.Request{Resume: true}, terminal())
		}
		return From(args[0], *path)
	}
	return c
}

// changeCommand is a command with an option that names a file.
func changeCommand(
	name, short, text, option, usage string,
) (c *cobra.Command, path *string) {
	c = &cobra.Command{
		Use:                   name + " [--" + option + " FILE] SOCKET",
		Short:                 short,
		Long:                  text,
		DisableFlagsInUseLine: true,
		Args:                  cli.TakesSocket,
	}
	path = c.Flags().String(option, "", usage)
	return c, path
}

// terminal is where progress is shown.
func terminal() io.Writer { return cli.OnTerminal(os.Stderr) }

// asked is what a request came to.
type asked func(tell func(suspend.Progress)) (*admin.Answer, error)

// change suspends or resumes.
func change(name, socket string, r admin.Request, show io.Writer) error {
	return report(name, socket, r, show, func(tell func(suspend.Progress)) (*admin.Answer, error) {
		return admin.AskAtLength(socket, r, tell)
	})
}

// Options say how a VM is suspended to a file.
type Options struct {
	// StopFirst stops its programs before anything is written.
	StopFirst bool
	// Kill ends programs whose work goes on.
	Kill bool
	// Away is how long programs wait for the VM's device, if it is taken out afterwards.
	Away time.Duration
}

// To suspends a VM to a file, which gets its name only when all of it is on the disk. If the file
// is there, it must be the one from which the VM was resumed: what has changed is added to it.
func To(socket, path string, o Options) error {
	f, err := record.Create(path)
	if errors.Is(err, os.ErrExist) {
		f, err = record.Extend(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = cli.CantMake("file", path, err)
	}
	if err != nil {
		return fmt.Errorf("suspend: %w", err)
	}
	err = to(socket, f, o)
	if !errors.Is(err, record.ErrGrown) {
		return err
	}
	if f, err = record.Replace(path); err != nil { // the file is the VM's own
		return fmt.Errorf("suspend: %w", err)
	}
	return to(socket, f, o)
}

// to suspends it to a file that it closes.
func to(socket string, f *record.File, o Options) error {
	defer f.Close()
	r := admin.Request{Suspend: true, File: true, Away: o.Away, Early: !o.StopFirst,
		Kill: o.Kill}
	s := settling{file: f}
	defer func() { _ = s.wait() }() // keep has asked, if it was called
	return report("suspend", socket, r, terminal(),
		func(tell func(suspend.Progress)) (*admin.Answer, error) {
			keep := func() error {
				if err := s.wait(); err != nil {
					return err
				}
				return f.Keep()
			}
			return admin.AskWithFile(socket, r, f.File, keep, func(p suspend.Progress) {
				if p.Early {
					s.begin()
				}
				tell(p)
			})
		})
}

// settling has a file's content go to the disk while more is written, so that little is left to be
// awaited when the programs stand still.
type settling struct {
	file interface{ Sync() error }
	busy chan struct{} // closed when it has gone there; nil: it never began
	err  error         // valid once busy is closed
}

// begin begins, unless it is under way.
func (s *settling) begin() {
	if s.busy != nil {
		select {
		case <-s.busy:
		default:
			return
		}
	}
	busy := make(chan struct{})
	s.busy = busy
	go func() {
		defer close(busy)
		if err := s.file.Sync(); err != nil { // it is told only once
			s.err = fmt.Errorf("write the file: %w", err)
		}
	}()
}

// wait waits for what was begun, and says what has failed.
func (s *settling) wait() error {
	if s.busy == nil {
		return nil
	}
	<-s.busy
	return s.err
}

// From resumes a VM from a file.
func From(socket, path string) error {
	f, err := record.Open(path)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	defer f.Close()
	r := admin.Request{Resume: true, File: true}
	return report("resume", socket, r, terminal(),
		func(tell func(suspend.Progress)) (*admin.Answer, error) {
			return admin.AskWithFile(socket, r, f, nil, tell)
		})
}

// report makes a request, shows how far it is, and says what it came to.
func report(name, socket string, r admin.Request, show io.Writer, ask asked) error {
	shown := false
	a, err := ask(func(p suspend.Progress) {
		shown = true
		fmt.Fprint(show, "\r", progressOf(p))
	})
	if shown {
		fmt.Fprintln(show)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case a.Moved == nil:
		return fmt.Errorf("%s: the device process at %s is of another version: "+
			"paracuda device --replace --control %[2]s", name, socket)
	}
	for _, program := range a.Moved.Killed {
		fmt.Fprintf(cli.Stdout, "ended, as its work went on: %s\n", plain.Text(program))
	}
	took := a.Moved.Took.Round(time.Millisecond)
	switch {
	case r.Suspend && r.File:
		fmt.Fprintf(cli.Stdout, "suspended to the file: %d bytes of device memory%s, in %v\n",
			a.Moved.Bytes, changed(a.Moved), (a.Moved.Ran + a.Moved.Took).Round(time.Millisecond))
		if a.Moved.Ran > 0 {
			fmt.Fprintf(cli.Stdout,
				"the programs stood still for %v, while %d bytes were written\n", took,
				a.Moved.Bytes-a.Moved.Unchanged-a.Moved.Early)
		}
	case r.Suspend:
		fmt.Fprintf(cli.Stdout, "suspended: %d bytes moved out%s, %d bytes stay, in %v\n",
			a.Moved.Bytes, changed(a.Moved), a.Moved.Stays, took)
	default:
		fmt.Fprintf(cli.Stdout, "resumed: %d bytes moved in, in %v\n", a.Moved.Bytes, took)
	}
	return nil
}

// changed says how much of what was moved had to be copied, if it wasn't all.
func changed(m *suspend.Moved) string {
	if m.Unchanged == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d changed)", m.Bytes-m.Unchanged)
}

// progressOf is how far something is, in one line.
func progressOf(p suspend.Progress) string {
	if p.Early {
		return show.MiB(p.Done) + " MiB written while the programs run"
	}
	if p.All == 0 {
		return "work ends"
	}
	return fmt.Sprintf("%s of %s MiB moved", show.MiB(min(p.Done, p.All)), show.MiB(p.All))
}
