// SPDX-License-Identifier: Apache-2.0

// Package sampler reads textures as the units of a GPU do: it finds, converts and filters texels.
//
// A Texture says where its texels lie and how they are read. It has no state, and checks no
// address: its caller has checked that the memory of all levels is there (Texels.Extent), and keeps
// it there meanwhile. Coordinates may be anything.
package sampler
