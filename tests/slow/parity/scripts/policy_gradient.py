"""An actor-critic by REINFORCE (Williams 1992) and a Q-network with a target network, on a corridor."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

SavedAction = namedtuple("SavedAction", ["log_prob", "value", "entropy"])
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
LENGTH = 6
eps = np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self, hidden):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(LENGTH, hidden)
        self.action_head = nn.Linear(hidden, 2)
        self.value_head = nn.Linear(hidden, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


class DQN(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layer1 = nn.Linear(LENGTH, hidden)
        self.layer2 = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.layer2(torch.tanh(self.layer1(x)))


def env_step(place, action):
    place = max(place + (1 if action == 1 else -1), 0)
    done = place == LENGTH - 1
    return place, (1.0 if done else -0.05), done


def make_data(rng, scale=1):
    return {"states": np.eye(LENGTH, dtype=np.float32)}


def build(scale=1):
    hidden = 16 * scale**2
    return nn.ModuleDict({"policy": Policy(hidden), "q": DQN(hidden), "target": DQN(hidden)})


def train(nets, data, steps):
    states = torch.from_numpy(data["states"])
    model = nets["policy"]
    policy_net = nets["q"]
    target_net = nets["target"]
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    q_optimizer = optim.RMSprop(policy_net.parameters(), lr=1e-3)
    memory = deque(maxlen=100)
    chance = random.Random(0)
    history = {"loss": [], "q_loss": [], "reward": []}

    def select_action(place):
        probs, state_value = model(states[place])
        action = torch.multinomial(probs, 1)
        log_prob = torch.log(probs.gather(-1, action)).squeeze(-1)
        entropy = -(probs * probs.log()).sum()
        model.saved_actions.append(SavedAction(log_prob, state_value, entropy))
        return action.item()

    def finish_episode():
        R = 0
        policy_losses = []
        value_losses = []
        returns = []
        for r in model.rewards[::-1]:
            R = r + 0.9 * R
            returns.insert(0, R)
        returns = torch.tensor(returns, dtype=states.dtype)
        returns = (returns - returns.mean()) / (returns.std(unbiased=False) + eps)
        entropy_loss = 0
        for (log_prob, value, entropy), R in zip(model.saved_actions, returns):
            advantage = R - value.item()
            policy_losses.append(-log_prob * advantage)
            value_losses.append(F.smooth_l1_loss(value, R.unsqueeze(0)))
            entropy_loss -= 0.01 * entropy
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() + entropy_loss
        loss.backward()
        optimizer.step()
        del model.rewards[:]
        del model.saved_actions[:]
        return loss.item()

    def optimize_model(batch_size=16):
        if len(memory) < batch_size:
            return 0.0
        batch = Transition(*zip(*chance.sample(list(memory), batch_size)))
        non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
        state_batch = torch.cat(batch.state)
        action_batch = torch.cat(batch.action)
        reward_batch = torch.cat(batch.reward)
        state_action_values = policy_net(state_batch).gather(1, action_batch)
        next_state_values = torch.zeros(batch_size, dtype=states.dtype)
        with torch.no_grad():
            next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
        expected_state_action_values = (next_state_values * 0.9) + reward_batch
        loss = nn.SmoothL1Loss()(state_action_values, expected_state_action_values.unsqueeze(1))
        q_optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        q_optimizer.step()
        target_net_state_dict = target_net.state_dict()
        policy_net_state_dict = policy_net.state_dict()
        for key in policy_net_state_dict:
            target_net_state_dict[key] = policy_net_state_dict[key] * 0.1 + target_net_state_dict[key] * (
                1 - 0.1
            )
        target_net.load_state_dict(target_net_state_dict)
        return loss.item()

    for _ in range(steps):
        place, ep_reward = 0, 0
        for _ in range(12):
            action = select_action(place)
            next_place, reward, done = env_step(place, action)
            model.rewards.append(reward)
            ep_reward += reward
            memory.append(
                Transition(
                    states[place].unsqueeze(0),
                    torch.tensor([[action]], dtype=torch.long),
                    None if done else states[next_place].unsqueeze(0),
                    torch.tensor([reward], dtype=states.dtype),
                )
            )
            place = next_place
            if done:
                break
        history["loss"].append(finish_episode())
        history["q_loss"].append(optimize_model())
        history["reward"].append(ep_reward)
    return history
