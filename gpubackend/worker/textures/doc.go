// SPDX-License-Identifier: Apache-2.0

// Package textures makes textures and surfaces of arrays and memory, copies between arrays, and
// tells what texture and surface references are bound to.
//
// The worker's loop owns a Textures, which keeps how textures and surfaces were made, to make them
// again (saved.go): the device's numbers of them are the guest's, too. All other objects are in the
// object table. Structures come from the guest as CUDA has them. They are copied before they are
// looked at; handles in them are replaced with the driver's, host addresses and reserved fields
// with zeros, and unknown kinds and flags are refused.
package textures
