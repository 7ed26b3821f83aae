// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

const suspendText = `Stops the programs of a running VM that use the GPU, and moves its device
memory out to the host's memory; the GPU has that memory back. The programs notice nothing but
time. SOCKET is the device's control socket. What can't be moved stays, and the answer says how
much that is. Work that was begun ends first: where that takes longer than the policy stop-grace,
or the host has too little memory (suspend-memory), nothing is changed. An interrupted command
doesn't stop what it has begun.`

const resumeText = `Moves the device memory of a suspended VM in again, and has its programs go
on. SOCKET is the device's control socket. Where the GPU has too little memory now, nothing is
changed, and nothing is lost: the VM stays suspended.`

func suspendCommand() *cobra.Command {
	return changeCommand("suspend", "move a VM's device memory out, to the host's memory",
		suspendText, device.Request{Suspend: true})
}

func resumeCommand() *cobra.Command {
	return changeCommand("resume", "move a suspended VM's device memory in again", resumeText,
		device.Request{Resume: true})
}

func changeCommand(name, short, text string, r device.Request) *cobra.Command {
	return &cobra.Command{
		Use:                   name + " SOCKET",
		Short:                 short,
		Long:                  text,
		DisableFlagsInUseLine: true,
		Args:                  takesSocket,
		RunE: func(_ *cobra.Command, args []string) error {
			var show io.Writer = io.Discard
			_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
			if err == nil { // it is a terminal
				show = os.Stderr
			}
			return change(name, args[0], r, show)
		},
	}
}

// change suspends or resumes, and shows on a terminal how far that is.
func change(name, socket string, r device.Request, show io.Writer) error {
	shown := false
	a, err := device.AskAtLength(socket, r, func(p suspend.Progress) {
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
		return fmt.Errorf("%s: the device at %s is of another version", name, socket)
	case r.Suspend:
		fmt.Fprintf(stdout, "suspended: %d bytes moved out, %d bytes stay, in %v\n", a.Moved.Bytes,
			a.Moved.Stays, a.Moved.Took.Round(time.Millisecond))
	default:
		fmt.Fprintf(stdout, "resumed: %d bytes moved in, in %v\n", a.Moved.Bytes,
			a.Moved.Took.Round(time.Millisecond))
	}
	return nil
}

// progressOf is how far something is, in one line.
func progressOf(p suspend.Progress) string {
	if p.All == 0 {
		return "work ends"
	}
	return fmt.Sprintf("%s of %s MiB moved", mib(min(p.Done, p.All)), mib(p.All))
}
