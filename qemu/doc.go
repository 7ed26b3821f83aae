// SPDX-License-Identifier: Apache-2.0

// Package qemu starts QEMU with Paracuda's device attached, and attaches the
// device to and detaches it from a QEMU that runs.
//
// What QEMU sees is a device of its own that carries virtqueues to a vhost-user
// back end: see Carrier. Guest RAM must be shared with the back end, or the guest
// hangs without a word, and the chardev must not reconnect, or QEMU aborts.
// Machine and Attach see to both.
package qemu
