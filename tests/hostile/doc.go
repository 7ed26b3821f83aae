// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks a device process as a guest's library, a guest's kernel and a front end
// can: the real program with the software GPU on one side, rings and arenas written by hand on the
// other. A worker that was taken over (package takenover) attacks it, the mover and the host from
// within the sandbox. After each attack a program on another channel computes as if nothing had
// happened, and so does one on the channel that was attacked.
package hostile
