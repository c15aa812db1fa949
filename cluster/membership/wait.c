#include "cluster/membership/wait.h"

void wait_end(struct wait *wait, enum status st)
{
    pthread_mutex_lock(&wait->lock);
    ASSERT(!wait->finished);
    wait->st = st;
    wait->finished = true;
    pthread_cond_signal(&wait->changed);
    pthread_mutex_unlock(&wait->lock);
}

enum status wait_for(struct wait *wait, struct env *env, struct env_task *task)
{
    ASSERT(!wait->finished);
    if (pthread_mutex_init(&wait->lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&wait->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&wait->lock); /* no thread holds the lock */
        return ST_NOMEM;
    }
    env_post(env, task);
    pthread_mutex_lock(&wait->lock);
    while (!wait->finished)
        pthread_cond_wait(&wait->changed, &wait->lock);
    pthread_mutex_unlock(&wait->lock);
    (void)pthread_cond_destroy(&wait->changed); /* no thread waits */
    (void)pthread_mutex_destroy(&wait->lock);   /* no thread holds the lock */
    return wait->st;
}
