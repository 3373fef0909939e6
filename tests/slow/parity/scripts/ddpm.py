"""Denoising diffusion (Ho et al. 2020): a small U-Net, schedules as buffers, time embeddings, sampling."""

import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def exists(x):
    return x is not None


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        device = x.device
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, time_emb_dim, groups=2):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2))
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(groups, dim_out)
        self.act = nn.SiLU()
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb=None):
        scale_shift = self.mlp(time_emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm(self.proj(x))
        scale, shift = scale_shift
        h = h * (scale + 1) + shift
        return self.act(h) + self.res_conv(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=8):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Conv2d(dim, dim_head * heads * 3, 1, bias=False)
        self.to_out = nn.Conv2d(dim_head * heads, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(x).chunk(3, dim=1)
        q, k, v = map(lambda t: t.reshape(b, self.heads, -1, h * w), qkv)
        q = q.softmax(dim=-2)
        k = k.softmax(dim=-1)
        context = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        out = torch.einsum("b h d e, b h d n -> b h e n", context, q)
        return self.to_out(out.reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.time_mlp = nn.Sequential(
            SinusoidalPosEmb(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim * 2)
        )
        self.init_conv = nn.Conv2d(1, dim, 3, padding=1)
        self.down = ResnetBlock(dim, dim, dim * 2)
        self.downsample = nn.Conv2d(dim, dim * 2, 4, 2, 1)
        self.mid = ResnetBlock(dim * 2, dim * 2, dim * 2)
        self.attn = LinearAttention(dim * 2)
        self.upsample = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(dim * 2, dim, 3, padding=1)
        )
        self.up = ResnetBlock(dim * 2, dim, dim * 2)
        self.final_conv = nn.Conv2d(dim, 1, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        t = self.time_mlp(time.to(x.dtype))
        x = self.down(x, t)
        skip = x
        x = self.mid(self.downsample(x), t)
        x = x + self.attn(x)
        x = torch.cat((self.upsample(x), skip), dim=1)
        return self.final_conv(self.up(x, t))


class GaussianDiffusion(nn.Module):
    def __init__(self, model, image_size, timesteps=8):
        super().__init__()
        self.model = model
        self.image_size = image_size
        self.num_timesteps = timesteps
        betas = torch.linspace(1e-3, 0.3, timesteps, dtype=torch.float64)
        alphas = 1.0 - betas
        alphas_cumprod = torch.cumprod(alphas, dim=0)
        alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
        register_buffer = lambda name, val: self.register_buffer(name, val.to(torch.float32))
        register_buffer("betas", betas)
        register_buffer("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod))
        register_buffer("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod))
        register_buffer("sqrt_recip_alphas_cumprod", torch.sqrt(1.0 / alphas_cumprod))
        register_buffer("sqrt_recipm1_alphas_cumprod", torch.sqrt(1.0 / alphas_cumprod - 1))
        posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
        register_buffer("posterior_log_variance_clipped", torch.log(posterior_variance.clamp(min=1e-20)))
        register_buffer(
            "posterior_mean_coef1", betas * torch.sqrt(alphas_cumprod_prev) / (1.0 - alphas_cumprod)
        )
        register_buffer(
            "posterior_mean_coef2", (1.0 - alphas_cumprod_prev) * torch.sqrt(alphas) / (1.0 - alphas_cumprod)
        )

    def q_sample(self, x_start, t, noise):
        return (
            extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start
            + extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        )

    @torch.no_grad()
    def p_sample(self, x, t):
        batched_times = torch.full((x.shape[0],), t, device=x.device, dtype=torch.long)
        pred_noise = self.model(x, batched_times)
        x_start = (
            extract(self.sqrt_recip_alphas_cumprod, batched_times, x.shape) * x
            - extract(self.sqrt_recipm1_alphas_cumprod, batched_times, x.shape) * pred_noise
        )
        x_start.clamp_(-1.0, 1.0)
        mean = (
            extract(self.posterior_mean_coef1, batched_times, x.shape) * x_start
            + extract(self.posterior_mean_coef2, batched_times, x.shape) * x
        )
        log_variance = extract(self.posterior_log_variance_clipped, batched_times, x.shape)
        noise = torch.randn_like(x) if t > 0 else 0.0
        return mean + (0.5 * log_variance).exp() * noise

    @torch.inference_mode()
    def sample(self, batch_size):
        img = torch.randn(batch_size, 1, self.image_size, self.image_size).to(self.betas.dtype)
        for t in reversed(range(0, self.num_timesteps)):
            img = self.p_sample(img, t)
        return (img + 1) * 0.5

    def forward(self, img):
        b, _, h, w, img_size = *img.shape, self.image_size
        assert h == img_size and w == img_size, f"height and width of image must be {img_size}"
        t = torch.randint(0, self.num_timesteps, (b,), device=img.device).long()
        img = img * 2 - 1
        noise = torch.randn_like(img)
        x = self.q_sample(x_start=img, t=t, noise=noise)
        loss = F.mse_loss(self.model(x, t), noise, reduction="none")
        return loss.flatten(1).mean(dim=1).mean()


class EMA:
    def __init__(self, beta):
        self.beta = beta

    def update_model_average(self, ma_model, current_model):
        for current_params, ma_params in zip(current_model.parameters(), ma_model.parameters()):
            old_weight = ma_params.data
            up_weight = current_params.data
            ma_params.data = self.update_average(old_weight, up_weight)

    def update_average(self, old, new):
        if not exists(old):
            return new
        return old * self.beta + (1 - self.beta) * new


def make_data(rng, scale=1):
    y, x = np.mgrid[0:8, 0:8]
    centres = rng.uniform(2, 6, (40, 2, 1, 1))
    squared = (y - centres[:, 0]) ** 2 + (x - centres[:, 1]) ** 2
    return {"images": np.exp(-squared / 4)[:, None].astype(np.float32)}


def build(scale=1):
    return GaussianDiffusion(Unet(8 * scale), image_size=8)


def train(diffusion, data, steps):
    images = torch.from_numpy(data["images"])
    ema_model = copy.deepcopy(diffusion.model)
    ema = EMA(0.9)
    opt = torch.optim.Adam(diffusion.parameters(), lr=2e-3, betas=(0.9, 0.99))
    history = {"loss": [], "sample": []}
    for step in range(steps):
        total_loss = 0.0
        for part in range(2):
            start = (step * 2 + part) * 4 % 40
            loss = diffusion(images[start : start + 4])
            loss = loss / 2
            total_loss += loss.item()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        ema.update_model_average(ema_model, diffusion.model)
        history["loss"].append(total_loss)
    diffusion.model.load_state_dict(ema_model.state_dict())
    diffusion.eval()
    history["sample"] += diffusion.sample(2).mean(dim=(1, 2)).flatten().tolist()
    return history
