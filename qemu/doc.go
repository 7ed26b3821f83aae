// SPDX-License-Identifier: Apache-2.0

// Package qemu starts QEMU with Paracuda's device attached, and attaches the
// device to and detaches it from a QEMU that runs.
//
// QEMU sees one of its own device models, which carries virtqueues to a vhost-user back end: see
// Carrier. Guest RAM must be shared with the back end, or the guest hangs silently; and the chardev
// must not reconnect, or QEMU aborts. Machine and Attach see to both.
//
// # Who may lie
//
// QEMU may, in what it says: it is waited for until the caller's context ends, a reply that returns
// nothing is an error, and texts of its own are shown without what could command a terminal.
//
// # Files
//
//	machine.go processor.go version.go   QEMU's command line, and what it needs
//	device.go                            the device as QEMU sees it
//	monitor.go plain.go                  QMP, by a socket or through libvirt (package domain)
//	attach.go port.go others.go          plugging the device in and out
//	memory.go                            plugging memory in and out
//	state.go                             saving a VM that others begin as copies of
package qemu
