// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/resumption"
	"github.com/paracuda/paracuda/vhostuser"
)

// keptSession is the session of a front end, which a keeper keeps from one device process to the
// next. Without a keeper each process makes its own.
type keptSession struct {
	keeping *resumption.Keeping // nil: there is no keeper
}

// ready says that front ends can connect.
func (s keptSession) ready() error {
	if s.keeping == nil {
		return sayReady()
	}
	return s.keeping.Ready()
}

// replace returns a function that has another process take this one's place; nil: there is no
// keeper.
func (s keptSession) replace() func() error {
	if s.keeping == nil {
		return nil
	}
	return s.keeping.Replace
}

// conn is the front end's connection, if there is one already.
func (s keptSession) conn() *net.UnixConn {
	if s.keeping == nil {
		return nil
	}
	return s.keeping.Conn()
}

// begin makes a front end's session, or goes on with the one that was left.
func (s keptSession) begin(
	conn *net.UnixConn, dev *device.Device, options vhostuser.Options,
) (session *vhostuser.Session, again bool, err error) {
	switch {
	case s.keeping == nil:
		session, err = vhostuser.New(conn, dev, options)
	case s.keeping.Conn() == conn:
		session, err = s.keeping.Resume(dev, options)
		again = true
	default:
		session, err = s.keeping.Begin(conn, dev, options)
	}
	return session, again, err
}

// forget gives up what is kept of a front end that is gone.
func (s keptSession) forget() error {
	if s.keeping == nil {
		return nil
	}
	return s.keeping.Forget()
}
