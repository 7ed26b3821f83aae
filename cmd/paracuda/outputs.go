// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// outputs are what a device process writes to or answers on besides its VM. They are opened before
// a VM can connect: a bad path ends the command then, and not the VM's device.
type outputs struct {
	trace   *os.File // or nil
	traced  noted
	control *net.UnixListener // or nil
}

func (o *deviceOptions) open() (out *outputs, err error) {
	out = &outputs{}
	if err := tryFile("--stats", o.stats); err != nil {
		return out, err
	}
	if o.trace != "" {
		if out.trace, err = os.Create(o.trace); err != nil {
			return out, fmt.Errorf("--trace: %w", err)
		}
		out.traced.w = out.trace
	}
	out.control, err = o.openControl()
	return out, err
}

// close says what could not be written.
func (out *outputs) close() (err error) {
	if out.trace != nil {
		if err = errors.Join(out.traced.failed(), out.trace.Close()); err != nil {
			err = fmt.Errorf("--trace: %w", err)
		}
	}
	if out.control != nil {
		out.control.Close()
	}
	return err
}

// noted is a writer that remembers its first error, for those who write to it and don't look.
type noted struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (n *noted) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return 0, n.err
	}
	var done int
	done, n.err = n.w.Write(b)
	return done, n.err
}

func (n *noted) failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// stdout is what commands print on. main says if that failed.
var stdout = &noted{w: os.Stdout}

// tryFile makes a file, if one is named, that is to be written at the end: whether it can be is
// known at once.
func tryFile(option, name string) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return file.Close()
}
