// SPDX-License-Identifier: Apache-2.0

//go:build race

package virtqueue

// raceEnabled shortens what the race detector would make take minutes.
const raceEnabled = true
