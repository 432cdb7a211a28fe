/* Replay of instruction streams: the machine of machine.py as a recurrence, see replay.py for the idea.
 *
 * Reads the columns of a Program in place. All times are integer picoseconds. Identical to the Python engines on
 * every program; anything that needs words (dead locks, timelines) is left to them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PIPES = 7, PIPE_S = 0, PIPE_ALL = 7, CHANNELS = PIPES * PIPES * 16, FLAGS = 16 };
enum { EXEC, SET, WAIT, BARRIER, CROSS_SET, CROSS_WAIT, LOOP, END };
enum { RUN_OK = 0, RUN_DEADLOCK = 1, RUN_NO_MEMORY = 2 };
enum { STALLED = 0, FINISHED = 1, FAILED = -1 };
enum { MIN_LOOP = 4 }; /* shorter loops are not worth a search for repetition */

typedef struct {
    const uint8_t *op, *pipe;
    const int32_t *arg;
    int64_t length;
    const int64_t *occupancy, *latency;
    const int32_t *source_begin; /* FLAGS + 1 offsets into source: who owes each cross-core flag */
    const int32_t *source;
} ascend_core;

typedef struct {
    int64_t issue, set, wait, barrier, cross;
    int32_t queue_depth;
} ascend_sync;

typedef struct { /* queue of posted flag times; capacity is a power of two */
    int64_t *at;
    uint32_t head, count, capacity;
} fifo;

typedef struct { /* an instruction in the queue of a blocked pipe */
    int64_t dispatched;
    int64_t number;
    int32_t arg;
    uint8_t op;
} queued;

typedef struct { /* times at which others see the sets of one cross-core flag; -1: not known yet */
    int64_t *at;
    int64_t count, capacity;
} posts;

typedef struct { /* what a loop body touches */
    uint32_t pipes;  /* pipes whose clocks it reads or writes */
    uint32_t queues; /* pipes whose queue it uses */
    int32_t *channel;
    int32_t channels;
    int usable; /* 0: has cross-core flags, is never compressed */
} body;

typedef struct { /* a loop being run, and the state it is compared with */
    int64_t left;
    int64_t age, limit; /* iterations since the state was saved, and when to save again */
    int64_t saved_t;
    int32_t body; /* -1: not compressed */
    int64_t *state;
    int64_t size, capacity;
} loop;

typedef struct {
    ascend_core in;
    int64_t t, pc;
    int64_t free[PIPES + 1], done[PIPES + 1];
    int64_t *ring; /* [PIPES][depth] starts of the last instructions of each pipe */
    int32_t head[PIPES];
    queued *pending; /* [PIPES][depth] */
    int32_t pending_head[PIPES], pending_count[PIPES];
    int32_t blocked, finished;
    fifo flag[CHANNELS];
    posts post[FLAGS];
    int64_t waited[FLAGS];
    loop *stack;
    int32_t depth, stack_capacity;
    body *bodies;
    int32_t body_count, body_capacity;
    int32_t *body_of; /* per instruction: 1 + body of the loop that begins there */
} core;

typedef struct {
    core *cores;
    int32_t count;
    ascend_sync sync;
    int compress;
} machine;

static inline int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int fifo_grow(fifo *f) {
    uint32_t capacity = f->capacity ? 2 * f->capacity : 8, i;
    int64_t *at = malloc(capacity * sizeof *at);
    if (!at) return 0;
    for (i = 0; i < f->count; i++) at[i] = f->at[(f->head + i) & (f->capacity - 1)];
    free(f->at);
    f->at = at;
    f->head = 0;
    f->capacity = capacity;
    return 1;
}

static inline int fifo_push(fifo *f, int64_t time) {
    if (f->count == f->capacity && !fifo_grow(f)) return 0;
    f->at[(f->head + f->count++) & (f->capacity - 1)] = time;
    return 1;
}

static inline int64_t fifo_pop(fifo *f) {
    int64_t time = f->at[f->head];
    f->head = (f->head + 1) & (f->capacity - 1);
    f->count--;
    return time;
}

static int posts_push(posts *p, int64_t time) {
    if (p->count == p->capacity) {
        int64_t capacity = p->capacity ? 2 * p->capacity : 16;
        int64_t *at = realloc(p->at, capacity * sizeof *at);
        if (!at) return 0;
        p->at = at;
        p->capacity = capacity;
    }
    p->at[p->count++] = time;
    return 1;
}

/* When the number-th set of a flag by all who owe it is seen; -1 if not known yet. */
static int64_t seen(const machine *m, const core *c, int32_t flag, int64_t number) {
    int64_t latest = -1;
    int32_t i;
    for (i = c->in.source_begin[flag]; i < c->in.source_begin[flag + 1]; i++) {
        const posts *p = &m->cores[c->in.source[i]].post[flag];
        if (p->count <= number || p->at[number] < 0) return -1;
        latest = later(latest, p->at[number]);
    }
    return latest;
}

static inline void started(const machine *m, core *c, int pipe, int64_t time) {
    int32_t head = c->head[pipe];
    c->ring[pipe * m->sync.queue_depth + head] = time;
    c->head[pipe] = head + 1 == m->sync.queue_depth ? 0 : head + 1;
}

static inline void enqueue(const machine *m, core *c, int pipe, queued q) {
    int32_t depth = m->sync.queue_depth;
    int32_t at = (c->pending_head[pipe] + c->pending_count[pipe]) % depth;
    if (!c->pending_count[pipe]++) c->blocked++;
    c->pending[pipe * depth + at] = q;
}

/* Let one blocked pipe go on as far as flags allow: 1 if it moved, -1 without memory. */
static int advance(const machine *m, core *c, int pipe) {
    const ascend_sync *sync = &m->sync;
    int moved = 0;
    while (c->pending_count[pipe]) {
        queued *q = &c->pending[pipe * sync->queue_depth + c->pending_head[pipe]];
        int64_t s = later(q->dispatched, c->free[pipe]), x;
        switch (q->op) {
        case EXEC:
            c->free[pipe] = s + c->in.occupancy[q->arg];
            c->done[pipe] = later(c->done[pipe], c->free[pipe] + c->in.latency[q->arg]);
            break;
        case WAIT:
            if (!c->flag[q->arg].count) return moved;
            s = later(s, fifo_pop(&c->flag[q->arg]));
            c->free[pipe] = s + sync->wait;
            break;
        case CROSS_WAIT:
            x = seen(m, c, q->arg, q->number);
            if (x < 0) return moved;
            s = later(s, x);
            c->free[pipe] = s + sync->wait;
            break;
        case SET:
            c->free[pipe] = s;
            if (!fifo_push(&c->flag[q->arg], later(s, c->done[pipe]) + sync->set)) return -1;
            break;
        case CROSS_SET:
            c->free[pipe] = s;
            c->post[q->arg / 4].at[q->number] = later(s, c->done[pipe]) + sync->set + sync->cross;
            break;
        default: /* BARRIER */
            s = later(s, c->done[pipe]);
            c->free[pipe] = s + sync->barrier;
        }
        started(m, c, pipe, s);
        c->pending_head[pipe] = (c->pending_head[pipe] + 1) % sync->queue_depth;
        c->pending_count[pipe]--;
        moved = 1;
    }
    if (moved) c->blocked--;
    return moved;
}

static int drain(const machine *m, core *c) {
    int moved = 0, again = 1, pipe;
    while (again && c->blocked) {
        again = 0;
        for (pipe = 1; pipe < PIPES; pipe++) {
            int went = c->pending_count[pipe] ? advance(m, c, pipe) : 0;
            if (went < 0) return -1;
            again |= went;
        }
        moved |= again;
    }
    return moved;
}

/* ---- loops */

static int scan_body(core *c, int64_t pc) {
    body b = {0, 0, NULL, 0, 1};
    int32_t nesting = 0, capacity = 0, i;
    if (c->body_count == c->body_capacity) {
        int32_t more = c->body_capacity ? 2 * c->body_capacity : 8;
        body *bodies = realloc(c->bodies, more * sizeof *bodies);
        if (!bodies) return 0;
        c->bodies = bodies;
        c->body_capacity = more;
    }
    for (; pc < c->in.length; pc++) {
        int op = c->in.op[pc], pipe = c->in.pipe[pc], arg = c->in.arg[pc];
        if (op == LOOP) {
            nesting++;
        } else if (op == END) {
            if (!--nesting) break;
        } else if (op == CROSS_SET || op == CROSS_WAIT) {
            b.usable = 0;
            break;
        } else if (pipe == PIPE_ALL) {
            b.pipes |= (1u << PIPES) - 1;
        } else {
            b.pipes |= 1u << pipe;
            if (pipe != PIPE_S) b.queues |= 1u << pipe;
            if (op == SET || op == WAIT) {
                for (i = 0; i < b.channels && b.channel[i] != arg; i++) {}
                if (i == b.channels) {
                    if (b.channels == capacity) {
                        int32_t *channel;
                        capacity = capacity ? 2 * capacity : 16;
                        channel = realloc(b.channel, capacity * sizeof *channel);
                        if (!channel) {
                            free(b.channel);
                            return 0;
                        }
                        b.channel = channel;
                    }
                    b.channel[b.channels++] = arg;
                }
            }
        }
    }
    c->bodies[c->body_count++] = b;
    return 1;
}

static inline int64_t ahead(int64_t time, int64_t t) { return time > t ? time - t : 0; }

/* The state in the order clocks, queues, flags. Writes it to the loop, or compares it with what is there. */
static int save_state(const machine *m, core *c, loop *l, const body *b) {
    int64_t need = 2 * PIPES + PIPES * (int64_t)(m->sync.queue_depth + 1), n = 0;
    int32_t pipe, i, depth = m->sync.queue_depth;
    uint32_t k;
    for (i = 0; i < b->channels; i++) need += 1 + c->flag[b->channel[i]].count;
    if (need > l->capacity) {
        int64_t *state = realloc(l->state, need * sizeof *state);
        if (!state) return 0;
        l->state = state;
        l->capacity = need;
    }
    for (pipe = 0; pipe < PIPES; pipe++) {
        if (!(b->pipes >> pipe & 1)) continue;
        l->state[n++] = ahead(c->free[pipe], c->t);
        l->state[n++] = ahead(c->done[pipe], c->t);
    }
    for (i = 0; i < b->channels; i++) {
        const fifo *f = &c->flag[b->channel[i]];
        l->state[n++] = f->count;
        for (k = 0; k < f->count; k++) l->state[n++] = ahead(f->at[(f->head + k) & (f->capacity - 1)], c->t);
    }
    for (pipe = 1; pipe < PIPES; pipe++) {
        if (!(b->queues >> pipe & 1)) continue;
        for (i = 1; i <= depth; i++) {
            int64_t start = c->ring[pipe * depth + (c->head[pipe] - i + depth) % depth];
            if (start <= c->t) break; /* starts do not decrease: the rest has left the queue as well */
            l->state[n++] = start - c->t;
        }
        l->state[n++] = -1;
    }
    l->size = n;
    l->saved_t = c->t;
    return 1;
}

static int same_state(const machine *m, const core *c, const loop *l, const body *b) {
    const int64_t *state = l->state;
    int32_t pipe, i, depth = m->sync.queue_depth;
    uint32_t k;
    for (pipe = 0; pipe < PIPES; pipe++) {
        if (!(b->pipes >> pipe & 1)) continue;
        if (*state++ != ahead(c->free[pipe], c->t)) return 0;
        if (*state++ != ahead(c->done[pipe], c->t)) return 0;
    }
    for (i = 0; i < b->channels; i++) {
        const fifo *f = &c->flag[b->channel[i]];
        if (*state++ != f->count) return 0;
        for (k = 0; k < f->count; k++)
            if (*state++ != ahead(f->at[(f->head + k) & (f->capacity - 1)], c->t)) return 0;
    }
    for (pipe = 1; pipe < PIPES; pipe++) {
        if (!(b->queues >> pipe & 1)) continue;
        for (i = 1; i <= depth; i++) {
            int64_t start = c->ring[pipe * depth + (c->head[pipe] - i + depth) % depth];
            if (start <= c->t) break;
            if (*state++ != start - c->t) return 0;
        }
        if (*state++ != -1) return 0;
    }
    return 1;
}

static void shift_state(const machine *m, core *c, const body *b, int64_t shift) {
    int32_t pipe, i, depth = m->sync.queue_depth;
    uint32_t k;
    c->t += shift;
    for (pipe = 0; pipe < PIPES; pipe++) {
        if (b->pipes >> pipe & 1) {
            c->free[pipe] += shift;
            c->done[pipe] += shift;
        }
        if (b->queues >> pipe & 1)
            for (i = 0; i < depth; i++) c->ring[pipe * depth + i] += shift;
    }
    for (i = 0; i < b->channels; i++) {
        fifo *f = &c->flag[b->channel[i]];
        for (k = 0; k < f->count; k++) f->at[(f->head + k) & (f->capacity - 1)] += shift;
    }
}

/* At the start of an iteration: compare with the saved state, skip what repeats (Brent's cycle search). */
static int look_for_repetition(const machine *m, core *c, loop *l) {
    const body *b = &c->bodies[l->body];
    if (l->age && same_state(m, c, l, b)) {
        int64_t times = (l->left - 1) / l->age; /* the last iteration is always run */
        if (times) {
            l->left -= times * l->age;
            shift_state(m, c, b, times * (c->t - l->saved_t));
        }
        l->body = -1;
        return 1;
    }
    if (!l->age || l->age == l->limit) {
        if (!save_state(m, c, l, b)) return 0;
        l->limit = l->limit ? 2 * l->limit : 1;
        l->age = 0;
    }
    l->age++;
    return 1;
}

static int enter_loop(const machine *m, core *c) {
    int64_t times = c->in.arg[c->pc];
    loop *l;
    if (c->depth == c->stack_capacity) {
        int32_t capacity = c->stack_capacity ? 2 * c->stack_capacity : 8;
        loop *stack = realloc(c->stack, capacity * sizeof *stack);
        if (!stack) return 0;
        memset(stack + c->depth, 0, (capacity - c->depth) * sizeof *stack);
        c->stack = stack;
        c->stack_capacity = capacity;
    }
    l = &c->stack[c->depth++];
    l->left = times;
    l->age = l->limit = 0;
    l->body = -1;
    if (m->compress && times >= MIN_LOOP) {
        if (!c->body_of && !(c->body_of = calloc(c->in.length, sizeof *c->body_of))) return 0;
        if (!c->body_of[c->pc]) {
            if (!scan_body(c, c->pc)) return 0;
            c->body_of[c->pc] = c->body_count;
        }
        if (c->bodies[c->body_of[c->pc] - 1].usable) l->body = c->body_of[c->pc] - 1;
    }
    return 1;
}

/* ---- the scalar unit */

static int run(const machine *m, core *c, int *moved) {
    const ascend_sync sync = m->sync;
    const uint8_t *ops = c->in.op, *pipes = c->in.pipe;
    const int32_t *args = c->in.arg;
    const int64_t length = c->in.length;
    const int32_t depth = sync.queue_depth;

    if (c->blocked) {
        int went = drain(m, c);
        if (went < 0) return FAILED;
        *moved |= went;
    }
    for (;; *moved = 1) {
        int64_t pc = c->pc, t, s, x;
        int op, pipe;
        int32_t arg;
        if (pc == length) {
            c->finished = !c->blocked;
            return c->finished ? FINISHED : STALLED;
        }
        op = ops[pc];
        pipe = pipes[pc];
        arg = args[pc];
        if (op >= LOOP) {
            if (op == LOOP) {
                if (!enter_loop(m, c)) return FAILED;
                c->pc++;
            } else {
                loop *l = &c->stack[c->depth - 1];
                if (!--l->left) {
                    c->depth--;
                    c->pc++;
                } else {
                    c->pc = arg + 1;
                    if (l->body >= 0 && l->left > 1 && !c->blocked && !look_for_repetition(m, c, l)) return FAILED;
                }
            }
            continue;
        }
        t = c->t + sync.issue;
        if (pipe == PIPE_ALL) {
            int i;
            if (c->blocked) return STALLED;
            for (i = 0; i < PIPES; i++) t = later(t, later(c->free[i], c->done[i]));
            t += sync.barrier;
            for (i = 0; i < PIPES; i++) c->free[i] = t;
            c->t = t;
            c->pc++;
            continue;
        }
        if (pipe == PIPE_S) {
            switch (op) {
            case EXEC:
                t += c->in.occupancy[arg];
                c->done[0] = later(c->done[0], t + c->in.latency[arg]);
                break;
            case SET:
                if (!fifo_push(&c->flag[arg], later(t, c->done[0]) + sync.set)) return FAILED;
                break;
            case WAIT:
                if (!c->flag[arg].count) return STALLED;
                t = later(t, fifo_pop(&c->flag[arg])) + sync.wait;
                break;
            case BARRIER:
                t = later(t, c->done[0]) + sync.barrier;
                break;
            case CROSS_SET:
                if (!posts_push(&c->post[arg / 4], later(t, c->done[0]) + sync.set + sync.cross)) return FAILED;
                break;
            default: /* CROSS_WAIT */
                x = seen(m, c, arg, c->waited[arg]);
                if (x < 0) return STALLED;
                c->waited[arg]++;
                t = later(t, x) + sync.wait;
            }
            c->t = t;
            c->pc++;
            if (c->blocked && (op == SET || op == CROSS_SET) && drain(m, c) < 0) return FAILED;
            continue;
        }
        if (c->pending_count[pipe]) {
            int32_t slot = c->pending_count[pipe];
            queued q = {0, 0, arg, (uint8_t)op};
            if (slot == depth) return STALLED;
            q.dispatched = t = later(t, c->ring[pipe * depth + (c->head[pipe] + slot) % depth]);
            if (op == CROSS_WAIT) {
                q.number = c->waited[arg]++;
            } else if (op == CROSS_SET) {
                q.number = c->post[arg / 4].count;
                if (!posts_push(&c->post[arg / 4], -1)) return FAILED;
            }
            enqueue(m, c, pipe, q);
            c->t = t;
            c->pc++;
            continue;
        }
        t = later(t, c->ring[pipe * depth + c->head[pipe]]);
        s = later(t, c->free[pipe]);
        c->t = t;
        c->pc++;
        switch (op) {
        case EXEC:
            started(m, c, pipe, s);
            s += c->in.occupancy[arg];
            c->free[pipe] = s;
            c->done[pipe] = later(c->done[pipe], s + c->in.latency[arg]);
            break;
        case SET:
            started(m, c, pipe, s);
            c->free[pipe] = s;
            if (!fifo_push(&c->flag[arg], later(s, c->done[pipe]) + sync.set)) return FAILED;
            if (c->blocked && drain(m, c) < 0) return FAILED;
            break;
        case WAIT:
            if (c->flag[arg].count) {
                s = later(s, fifo_pop(&c->flag[arg]));
                started(m, c, pipe, s);
                c->free[pipe] = s + sync.wait;
            } else {
                queued q = {t, 0, arg, WAIT};
                enqueue(m, c, pipe, q);
            }
            break;
        case BARRIER:
            s = later(s, c->done[pipe]);
            started(m, c, pipe, s);
            c->free[pipe] = s + sync.barrier;
            break;
        case CROSS_SET:
            started(m, c, pipe, s);
            c->free[pipe] = s;
            if (!posts_push(&c->post[arg / 4], later(s, c->done[pipe]) + sync.set + sync.cross)) return FAILED;
            if (c->blocked && drain(m, c) < 0) return FAILED;
            break;
        default: { /* CROSS_WAIT */
            int64_t number = c->waited[arg]++;
            x = seen(m, c, arg, number);
            if (x >= 0) {
                s = later(s, x);
                started(m, c, pipe, s);
                c->free[pipe] = s + sync.wait;
            } else {
                queued q = {t, number, arg, CROSS_WAIT};
                enqueue(m, c, pipe, q);
            }
        }
        }
    }
}

static int run_all(machine *m) {
    for (;;) {
        int32_t k, unfinished = 0;
        int moved = 0;
        for (k = 0; k < m->count; k++) {
            if (m->cores[k].finished) continue;
            if (run(m, &m->cores[k], &moved) == FAILED) return RUN_NO_MEMORY;
            if (m->cores[k].finished)
                moved = 1;
            else
                unfinished++;
        }
        if (!unfinished) return RUN_OK;
        if (!moved) return RUN_DEADLOCK;
    }
}

static void release(core *c) {
    int32_t i;
    free(c->ring);
    free(c->pending);
    for (i = 0; i < CHANNELS; i++) free(c->flag[i].at);
    for (i = 0; i < FLAGS; i++) free(c->post[i].at);
    for (i = 0; i < c->stack_capacity; i++) free(c->stack[i].state);
    free(c->stack);
    for (i = 0; i < c->body_count; i++) free(c->bodies[i].channel);
    free(c->bodies);
    free(c->body_of);
}

/* Replay the cores together; end[k] becomes the time core k is done. The caller has checked the programs. */
int ascend_replay(int32_t count, const ascend_core *in, const ascend_sync *sync, int compress, int64_t *end) {
    machine m = {NULL, count, *sync, compress};
    int32_t k, pipe;
    int result = RUN_OK;
    m.cores = calloc(count, sizeof *m.cores);
    if (!m.cores) return RUN_NO_MEMORY;
    for (k = 0; k < count; k++) {
        core *c = &m.cores[k];
        c->in = in[k];
        c->ring = calloc((size_t)PIPES * sync->queue_depth, sizeof *c->ring);
        c->pending = calloc((size_t)PIPES * sync->queue_depth, sizeof *c->pending);
        if (!c->ring || !c->pending) result = RUN_NO_MEMORY;
    }
    if (result == RUN_OK) result = run_all(&m);
    for (k = 0; k < count; k++) {
        core *c = &m.cores[k];
        end[k] = c->t;
        for (pipe = 0; pipe < PIPES; pipe++) end[k] = later(end[k], later(c->free[pipe], c->done[pipe]));
        release(c);
    }
    free(m.cores);
    return result;
}
