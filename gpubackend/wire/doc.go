// SPDX-License-Identifier: Apache-2.0

// Package wire has the formats in which the guest's driver and library talk to the device process
// and the workers: the configuration space, control requests, descriptor chains, the arena and the
// commands in it. All of it is generated from gpubackend/api/wire.def; docs/protocol.md gives the
// rules. Whatever is decoded here comes from a guest and may be a lie.
package wire
