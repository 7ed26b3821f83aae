// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/vhostuser"
)

// socketAccess says who may connect to a socket besides its owner.
type socketAccess struct {
	group string
	mode  fs.FileMode // 0: what the umask gives
}

// setMode reads --socket-mode.
func (a *socketAccess) setMode(text string) error {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return fmt.Errorf("want an octal mode such as 0660, not %q", text)
	}
	a.mode = fs.FileMode(mode)
	return nil
}

// give gives a socket to those who may connect.
func (a *socketAccess) give(path string) error {
	g, err := socket.FindGroup(a.group)
	if err != nil {
		return fmt.Errorf("--socket-group %w", err)
	}
	if err := g.Give(path); err != nil {
		return fmt.Errorf("--socket-group %s: %w", a.group, err)
	}
	mode := a.mode
	switch {
	case mode == 0 && a.group == "":
		return nil
	case mode == 0:
		mode = socket.GroupMode
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("--socket-mode: %w", err)
	}
	return nil
}

// listen makes the socket that an option names.
func listen(option, path string, a socketAccess) (*net.UnixListener, error) {
	if err := cli.CheckSocket(option, path); err != nil {
		return nil, err
	}
	l, err := vhostuser.Listen(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf(
			"socket %s is in use: stop the process that serves it, or choose another path", path)
	}
	if err != nil {
		return nil, cli.CantMake(option, path, err)
	}
	if err := a.give(path); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
