// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
)

// outputs are what a device process writes to or answers on besides its VM. They are opened before a VM can connect:
// a bad path ends the command then, and not the VM's device.
type outputs struct {
	trace   *os.File          // or nil
	control *net.UnixListener // or nil
}

func (o *deviceOptions) open() (out outputs, err error) {
	if err := tryFile("--stats", o.stats); err != nil {
		return out, err
	}
	if o.trace != "" {
		if out.trace, err = os.Create(o.trace); err != nil {
			return out, fmt.Errorf("--trace: %w", err)
		}
	}
	if o.control != "" {
		out.control, err = listen("--control", o.control)
	}
	return out, err
}

func (out outputs) close() {
	if out.trace != nil {
		out.trace.Close()
	}
	if out.control != nil {
		out.control.Close()
	}
}

// tryFile makes a file, if one is named, that is to be written at the end: whether it can be is known at once.
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
