// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
)

// controlName is what a systemd socket unit calls the control socket (FileDescriptorName=).
const controlName = "control"

// takeActivated takes over the sockets that systemd listens on for this process: one for the front
// end, and one called control (sd_listen_fds(3)).
func (o *deviceOptions) takeActivated() error {
	for _, file := range activation.Files(true) {
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		name := file.Name()
		file.Close()
		switch {
		case err != nil:
			return fmt.Errorf("socket %s of systemd's: %w", name, err)
		case name == controlName && o.control == "" && o.controlSocket == nil:
			if o.controlSocket, _, err = vhostuser.Inherit(fd); err != nil {
				return fmt.Errorf("socket %s of systemd's: %w", name, err)
			}
		case name != controlName && o.fd < 0 && o.socket == "":
			o.fd = fd
		default:
			unix.Close(fd)
			return fmt.Errorf("socket %s of systemd's: there is one already: want one for the "+
				"front end, and one named %s", name, controlName)
		}
	}
	return nil
}

// openControl makes the socket of set and stats, if one is wanted.
func (o *deviceOptions) openControl() (*net.UnixListener, error) {
	if o.control == "" {
		return o.controlSocket, nil
	}
	return listen("--control", o.control, socketAccess{})
}

// sayReady tells systemd that front ends can connect, if it wants to know (sd_notify(3)).
func sayReady() error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}
