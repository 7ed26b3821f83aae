// SPDX-License-Identifier: Apache-2.0

// Package qemu starts QEMU with Paracuda's device attached, and attaches the
// device to and detaches it from a QEMU that runs.
//
// The device is QEMU's own vhost-user-test-device-pci, the generic front end of
// a vhost-user back end, which exists from QEMU 10.2 on. It has two demands:
// guest RAM must be shared with the back end, or the guest hangs without a word,
// and its chardev must not reconnect, or QEMU aborts. Machine and Attach see to
// both.
package qemu
