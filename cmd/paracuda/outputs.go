// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// outputs are what a device process writes to or answers on besides its VM. They are opened before
// a VM can connect: a bad path ends the command at its start, not the VM's device later.
type outputs struct {
	stats   *os.File // written at the end, or nil
	trace   *os.File // or nil
	traced  cli.Noted
	control *net.UnixListener // or nil
	closed  bool
}

func (o *deviceOptions) open(b *before) (out *outputs, err error) {
	out = &outputs{}
	if o.stats != "" {
		// The file keeps what it has until there is something new.
		if out.stats, err = os.OpenFile(o.stats, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
			return out, cli.CantMake("--stats", o.stats, err)
		}
	}
	if o.trace != "" {
		how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if b.facts != nil {
			how = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		if out.trace, err = os.OpenFile(o.trace, how, 0o666); err != nil {
			return out, cli.CantMake("--trace", o.trace, err)
		}
		out.traced.W = out.trace
	}
	if out.control, err = b.listener(remains.Admin); err != nil || out.control != nil {
		return out, err
	}
	if out.control, err = o.openControl(); err == nil && out.control != nil {
		b.keep(remains.Admin, out.control)
	}
	return out, err
}

// close returns, once, the error of what could not be written.
func (out *outputs) close() (err error) {
	if out.closed {
		return nil
	}
	out.closed = true
	if out.trace != nil {
		if err = errors.Join(out.traced.Failed(), out.trace.Close()); err != nil {
			err = fmt.Errorf("--trace: %w", err)
		}
	}
	if out.control != nil {
		out.control.Close()
	}
	if out.stats != nil {
		err = errors.Join(err, out.stats.Close())
	}
	return err
}

// overwrite replaces what is in a file, if it can be truncated.
func overwrite(file *os.File, b []byte) error {
	if is, err := file.Stat(); err == nil && is.Mode().IsRegular() {
		if err := file.Truncate(0); err != nil {
			return err
		}
	}
	_, err := file.Write(b)
	return err
}
