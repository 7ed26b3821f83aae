/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: waits while the worker says that the VM's turn is awaited. */

struct turn {
	pthread_t thread, waiter;
	struct paracuda_arena_header *header;
	unsigned int delay;	/* us */
	int over;
};

/* The turn begins, and something wakes the thread that waits, or comes to wait later. */
static void *begin_turn(void *arg)
{
	struct turn *t = arg;

	usleep(t->delay);
	__atomic_store_n(&t->header->held, 0, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&t->over, __ATOMIC_SEQ_CST)) {
		pthread_kill(t->waiter, SIGALRM);
		usleep(20000);
	}
	return NULL;
}

/* The error of a WAIT during which the turn begins. EINTR: or before, as the thread was late. */
static int wait_until_turn(int fd, void *arena, unsigned int delay)
{
	struct turn t = { .waiter = pthread_self(), .header = arena, .delay = delay };
	int err;

	__atomic_store_n(&t.header->held, 1, __ATOMIC_SEQ_CST);
	pthread_create(&t.thread, NULL, begin_turn, &t);
	err = wait_word(fd, PARACUDA_SLOTS, 0, 0) ? errno : 0;
	__atomic_store_n(&t.over, 1, __ATOMIC_SEQ_CST);
	pthread_join(t.thread, NULL);
	return err;
}

static void turns(int fd, void *arena)
{
	struct paracuda_arena_header *header = arena;
	int err = EINTR;

	__atomic_store_n(&header->held, 1, __ATOMIC_SEQ_CST);
	expect(wait_word(fd, PARACUDA_SLOTS, 0, 5 * 1000 * 1000), ETIMEDOUT,
	       "WAIT with a limit before the VM's turn");
	for (unsigned int delay = 20000; err == EINTR && delay <= 2000000; delay *= 10)
		err = wait_until_turn(fd, arena, delay);
	check(err == EAGAIN, "WAIT until the VM's turn");
}
